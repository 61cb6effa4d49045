// A server of mcp-go: `stdio`, or `http PORT`. Its tools have all hints, because mcp-go sets those that are not given.
package main

import (
	"context"
	"errors"
	"os"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"
)

func add(s *server.MCPServer, name string, hint mcp.ToolOption, run func(string) (string, error)) {
	tool := mcp.NewTool(name, mcp.WithString("name", mcp.Required()), hint)
	s.AddTool(tool, func(_ context.Context, r mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		text, err := run(r.GetString("name", ""))
		return mcp.NewToolResultText(text), err
	})
}

func main() {
	s := server.NewMCPServer("notes", "1")
	reads := mcp.WithReadOnlyHintAnnotation(true)
	add(s, "read_note", reads, func(name string) (string, error) { return "the text of " + name, nil })
	add(s, "remove_note", mcp.WithDestructiveHintAnnotation(true), func(name string) (string, error) { return "removed " + name, nil })
	add(s, "read_broken_note", reads, func(name string) (string, error) { return "", errors.New(name + " is broken") })
	if os.Args[1] == "stdio" {
		server.ServeStdio(s)
		return
	}
	server.NewStreamableHTTPServer(s).Start("127.0.0.1:" + os.Args[2])
}
