// A server of the official Go SDK: `stdio`, or `http PORT`.
package main

import (
	"context"
	"errors"
	"net/http"
	"os"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

type note struct {
	Name string `json:"name"`
}

func add(server *mcp.Server, name string, hints *mcp.ToolAnnotations, run func(note) (string, error)) {
	tool := &mcp.Tool{Name: name, Annotations: hints}
	mcp.AddTool(server, tool, func(_ context.Context, _ *mcp.CallToolRequest, in note) (*mcp.CallToolResult, any, error) {
		text, err := run(in)
		return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: text}}}, nil, err
	})
}

func main() {
	server := mcp.NewServer(&mcp.Implementation{Name: "notes", Version: "1"}, nil)
	destructive := true
	reads := &mcp.ToolAnnotations{ReadOnlyHint: true}
	add(server, "read_note", reads, func(in note) (string, error) { return "the text of " + in.Name, nil })
	add(server, "remove_note", &mcp.ToolAnnotations{DestructiveHint: &destructive}, func(in note) (string, error) {
		return "removed " + in.Name, nil
	})
	add(server, "read_broken_note", reads, func(in note) (string, error) { return "", errors.New(in.Name + " is broken") })
	if os.Args[1] == "stdio" {
		server.Run(context.Background(), &mcp.StdioTransport{})
		return
	}
	handler := mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return server }, nil)
	http.ListenAndServe("127.0.0.1:"+os.Args[2], handler)
}
