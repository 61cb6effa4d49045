"""What is refused, and the words it is refused with."""

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from stopgo.config.described.shape import keys_of
from stopgo.config.sections.mcp import McpServerConfig
from stopgo.config.text.errors import ConfigError, Problem

from .conftest import Load, Problems, placed

LLM = "type: llm, name: x"
KNOWN = ", ".join(keys_of(McpServerConfig))


def server(text: str) -> str:
    return f"mcp_servers:\n  - {{name: a, {text}}}"


def node(text: str) -> str:
    return f"agent:\n  {{{text}}}"


@pytest.mark.parametrize(
    ("text", "code", "expected"),
    [
        # Keys
        ("naem: x", "unknown_key", '1:1: naem: unknown key "naem" (did you mean "name"?)'),
        ("name: a\nPort: 1", "unknown_key", '2:1: Port: unknown key "Port" (did you mean "port"?)'),
        ("model: x", "unknown_key", '1:1: model: unknown key "model" (write llm: {model: ...})'),
        (
            "server: {port: 1}",
            "unknown_key",
            '1:10: server.port: unknown key "port" (port belongs at the top level of the file)',
        ),
        (
            "timeout: 1",
            "unknown_key",
            '1:1: timeout: unknown key "timeout" (write llm: {timeout: ...} or limits: {timeout: ...})',
        ),
        ("llm: {modle: x}", "unknown_key", '1:7: llm.modle: unknown key "modle" (did you mean "model"?)'),
        (
            "llm: {zzz: x}",
            "unknown_key",
            '1:7: llm.zzz: unknown key "zzz" (valid keys: model, fallbacks, stream, timeout, '
            "max_concurrency, max_tokens, temperature, options)",
        ),
        (
            server("command: b, zzz: {}"),
            "unknown_key",
            f'2:27: mcp_servers[0].zzz: unknown key "zzz" (valid keys: {KNOWN})',
        ),
        (
            node(LLM + ", outputKey: y"),
            "unknown_key",
            '2:24: agent.outputKey: unknown key "outputKey" (did you mean "output_key"?)',
        ),
        ("has_tree: true", "unknown_key", None),
        ("stored_tree: {}", "unknown_key", None),
        (server("command: b, as_written: c"), "unknown_key", None),
        (
            "mcp: {url: 'http://x'}",
            "renamed_key",
            "1:1: mcp: the key mcp was renamed; use mcp_servers, a list of servers that each have a name",
        ),
        ("name: a\nname: b", "duplicate_key", '2:1: duplicate key "name", first on line 1'),
        # Examples, which are messages
        *(
            (f"examples: {texts}", "bad_format", None)
            for texts in ("['']", "[' ']", '["\\n"]', f"[{'x' * 501}]")
        ),
        ("examples: []", "empty_list", None),
        ("examples: add a lamp", "wrong_type", None),
        ("examples: [1]", "wrong_type", None),
        # Hosts and origins
        *(
            (f"server: {{{key}: [{text!r}]}}", "bad_format", None)
            for key, texts in (
                (
                    "allowed_hosts",
                    ("", "*", "*.example", "a:80", "http://a", "a.", "-a", "[::1]", "b\u00fc.example"),
                ),
                (
                    "allowed_origins",
                    ("", "*", "null", "a", "http://a/", "http://u@a", "ftp://a", "http://*.a"),
                ),
            )
            for text in texts
        ),
        *(
            (f"server: {{public_url: {text!r}}}", "bad_format", None)
            for text in ("", "a.example", "http://u@a", "http://a?b", "http://a/b c", "//a")
        ),
        # Types
        ("name: 5", "wrong_type", "1:7: name: expected text, found a whole number (put it in quotes)"),
        ("name: true", "wrong_type", "1:7: name: expected text, found a boolean (put it in quotes)"),
        (
            "name: no",
            "wrong_type",
            "1:7: name: expected text, found no, which YAML reads as false (put it in quotes)",
        ),
        ("name: 1.5", "wrong_type", "1:7: name: expected text, found a number (put it in quotes)"),
        ("name: [a]", "wrong_type", "1:7: name: expected text, found a list"),
        ("name: {a: b}", "wrong_type", "1:7: name: expected text, found a mapping"),
        (
            "name:",
            "wrong_type",
            "1:6: name: expected text, found nothing (leave the key out for its default)",
        ),
        ("port: '80'", "wrong_type", "1:7: port: expected a whole number from 0 to 65535, found text"),
        ("port: 1.5", "wrong_type", "1:7: port: expected a whole number from 0 to 65535, found a number"),
        ("port: true", "wrong_type", "1:7: port: expected a whole number from 0 to 65535, found a boolean"),
        ("port: 80${A}", "wrong_type", "1:7: port: expected a whole number from 0 to 65535, found text"),
        (
            "port: ${A}",
            "wrong_type",
            "1:7: port: expected a whole number from 0 to 65535, found something else in ${A}",
        ),
        ("llm: x", "wrong_type", "1:6: llm: expected a mapping, found text (write {model: ...})"),
        ("llm: []", "wrong_type", "1:6: llm: expected a mapping, found a list"),
        (
            "mcp_servers: x",
            "wrong_type",
            "1:14: mcp_servers: expected a list, or a mapping of names, found text",
        ),
        (
            "mcp_servers: [x]",
            "wrong_type",
            "1:15: mcp_servers[0]: expected a mapping, found text (write {command: ...})",
        ),
        (
            server("command: b, args: c"),
            "wrong_type",
            "2:33: mcp_servers[0].args: expected a list, found text (write a list as [a, b])",
        ),
        (
            server("command: b, args: [1]"),
            "wrong_type",
            "2:34: mcp_servers[0].args[0]: expected text, found a whole number (put it in quotes)",
        ),
        (
            server("command: b, env: {A: 1}"),
            "wrong_type",
            "2:36: mcp_servers[0].env.A: expected text, found a whole number (put it in quotes)",
        ),
        ("agent:", "wrong_type", "1:7: agent: expected a mapping, found nothing"),
        ("agent: x", "wrong_type", "1:8: agent: expected a mapping, found text (write {type: ...})"),
        (node("type: [llm], name: x"), "wrong_type", None),
        (
            "approval: {unannotated: true}",
            "wrong_type",
            "1:25: approval.unannotated: expected run or ask, found a boolean",
        ),
        (
            "approval: {in_loop: Yes}",
            "wrong_type",
            "1:21: approval.in_loop: expected run or ask, found Yes, which YAML reads as true",
        ),
        *(
            (
                f"shutdown_grace: {written}",
                "wrong_type",
                f"1:17: shutdown_grace: expected a number from 0 to 86400, found text{hint}",
            )
            for written, hint in (
                ("1h", " (in seconds: 3600)"),
                ("90 s", " (in seconds: 90)"),
                ("1.5minutes", " (in seconds: 90)"),
                ("500ms", " (in seconds: 0.5)"),
                ("1day", " (in seconds: 86400)"),
                ("2d", ""),
                ("1 month", ""),
            )
        ),
        (
            "llm: {temperature: 1m}",
            "wrong_type",
            "1:20: llm.temperature: expected a number from 0 to 2, found text",
        ),
        # Values
        ("name: ''", "empty_value", "1:7: name: must not be empty"),
        ("name: ${EMPTY}", "empty_value", "1:7: name: must not be empty"),
        (
            "port: 65536",
            "out_of_range",
            "1:7: port: expected a whole number from 0 to 65535, found 65536",
        ),
        ("port: -1", "out_of_range", "1:7: port: expected a whole number from 0 to 65535, found -1"),
        (
            "shutdown_grace: .inf",
            "out_of_range",
            "1:17: shutdown_grace: expected a number from 0 to 86400, found inf",
        ),
        ("shutdown_grace: .nan", "out_of_range", None),
        (f"port: {'9' * 4000}", "out_of_range", None),
        ("port: ${MANY}", "out_of_range", None),
        (
            server("command: b, connect_timeout: 0"),
            "out_of_range",
            "2:44: mcp_servers[0].connect_timeout: expected a number above 0 and at most 86400, found 0",
        ),
        (server("command: b, max_concurrency: 0"), "out_of_range", None),
        ("tools: {max_parallel: 0}", "out_of_range", None),
        (node(LLM + ", max_turns: 0"), "out_of_range", None),
        (
            node(LLM + ", history: converstion"),
            "unknown_word",
            '2:33: agent.history: expected conversation or turn, found "converstion" '
            '(did you mean "conversation"?)',
        ),
        (
            server("url: 'ftp://user:pass@x'"),
            "bad_format",
            "2:20: mcp_servers[0].url: expected an http:// or https:// address, found other text",
        ),
        (
            node(LLM + ", output_key: a-b"),
            "bad_format",
            "2:36: agent.output_key: expected a word of letters, digits and _, found other text",
        ),
        # References
        (
            "name: x ${NOPE}",
            "variable_unset",
            "1:7: name: the environment variable NOPE is not set (set it, or write ${NOPE:-default})",
        ),
        (
            "prompt: ${ x }",
            "bad_reference",
            "1:9: prompt: a reference is ${NAME}, ${NAME:-default} or ${file:PATH}, with no reference inside "
            "(write $${ for a literal ${)",
        ),
        (
            "llm: {model: ${MODEL:-offline:rules}}",
            "yaml_syntax",
            "1:15: not valid YAML: while parsing a flow mapping, expected ',' or '}', but got '{' "
            "(within { } and [ ] a value with ${NAME} in it needs quotes)",
        ),
        (
            "data_dir: ~/agent",
            "bad_format",
            "1:11: data_dir: expected a path (for ~ write ${HOME}), found other text",
        ),
        ("data_dir: ${data_dir}/x", "variable_unset", "1:11: data_dir: ${data_dir} has no value here"),
        (
            "llm:\n\u00a0\u00a0model: x",
            "unknown_key",
            '2:1: ??model: unknown key "??model" '
            "(it contains U+00A0, which is not a space in YAML; retype it)",
        ),
        # Servers
        (
            "mcp_servers:\n  name: a\n  command: b",
            "wrong_type",
            "2:3: mcp_servers: expected a list, or a mapping of names, found a mapping "
            '(begin each item with "- ")',
        ),
        (
            "approval: {rules: {then: ask}}",
            "wrong_type",
            '1:19: approval.rules: expected a list, found a mapping (begin each item with "- ")',
        ),
        ("mcp_servers: [{url: 'http://x'}]", "missing_key", "1:15: mcp_servers[0]: name is required"),
        (
            "mcp_servers: [{name: '', url: 'http://x'}]",
            "missing_key",
            "1:22: mcp_servers[0]: name is required",
        ),
        ("mcp_servers: [{name: , command: x}]", "missing_key", None),
        (
            "mcp_servers:\n  - {name: x, command: a}\n  - {name: x, command: b}",
            "duplicate_name",
            '3:12: mcp_servers: duplicate name "x" (first used on line 2)',
        ),
        (
            "mcp_servers:\n  - {name: a, command: a}\n  - {name: '${A}', command: b}",
            "duplicate_name",
            '3:12: mcp_servers: duplicate name "${A}" (first used on line 2)',
        ),
        (
            "mcp_servers: [{name: x}]",
            "missing_key",
            "1:15: mcp_servers[0]: url, command or brought_by is required",
        ),
        (
            server("url: 'http://x', command: y"),
            "conflicting_keys",
            "2:5: mcp_servers[0]: url and command exclude each other; give one of them",
        ),
        (
            server("brought_by: program, timeout: 5, env: {}"),
            "conflicting_keys",
            "2:48: mcp_servers[0].env: env belongs to command, which is not given",
        ),
        (
            server("brought_by: me"),
            "unknown_word",
            '2:27: mcp_servers[0].brought_by: expected program, found "me"',
        ),
        (
            server("url: 'http://x', env: {}"),
            "conflicting_keys",
            "2:32: mcp_servers[0].env: env belongs to command, which is not given",
        ),
        # Nodes
        (
            node("name: x"),
            "missing_key",
            "2:3: agent: type is required: llm, sequential, parallel, loop, router, approval or a2a",
        ),
        (node("type: llm"), "missing_key", "2:3: agent: name is required"),
        (
            node("type: paralel, name: x, agents: []"),
            "unknown_node_type",
            '2:10: agent.type: unknown node type "paralel"; expected llm, sequential, parallel, '
            "loop, router, approval or a2a "
            '(did you mean "parallel"?)',
        ),
        (node("type: '${A}', name: x"), "unknown_node_type", None),
        (node("type: sequential, name: x"), "missing_key", "2:3: agent: agents is required"),
        (node("type: parallel, name: x, agents: "), "missing_key", "2:36: agent: agents is required"),
        (
            node("type: parallel, name: x, agents: []"),
            "empty_list",
            "2:37: agent.agents: the list is empty; it needs at least one",
        ),
        (node("type: llm, name: x, agents: []"), "unknown_key", None),
        (
            "agent:\n  type: sequential\n  name: x\n  agents:\n"
            "    - {type: llm, name: y}\n    - {type: llm, name: x}",
            "duplicate_name",
            '6:25: agent.agents[1]: duplicate node name "x" (first used on line 3)',
        ),
    ],
)
def test_mistake_is_reported(problems: Problems, text: str, code: str, expected: str | None) -> None:
    found = problems(text, {"A": "a", "EMPTY": "", "MANY": "9" * 18})
    assert [problem.code for problem in found] == [code]
    assert expected is None or placed(found[0]) == expected


CHILD = "agents: [{type: llm, name: y}, {type: llm, name: zebra}]"
ROUTER = f"type: router, name: x, {CHILD}"
CONDITION = "a mapping, text, a number, or true or false"
SERVERS = "mcp_servers: {files: {command: a}}\n"


def rule(text: str) -> str:
    return f"approval:\n  rules:\n    - {{{text}}}"


def forwarding(names: str) -> str:
    return f"auth:\n  oidc: {{issuer: https://i, audience: a}}\n  forward_credential: [{names}]"


def condition(text: str) -> str:
    return rule(f"then: ask, arguments: {{a: {text}}}")


@pytest.mark.parametrize(
    ("text", "code", "expected"),
    [
        # What every node has
        (
            node(LLM + ", mcp_servers: "),
            "wrong_type",
            "2:36: agent.mcp_servers: expected a list, found nothing (leave the key out for its default)",
        ),
        (
            node(LLM + ", tools: resources_*"),
            "wrong_type",
            "2:31: agent.tools: expected a list, found text (write a list as [a, b])",
        ),
        (node(LLM + ", mcp_servers: [1]"), "wrong_type", None),
        (
            node(LLM + ", timeout: 0"),
            "out_of_range",
            "2:33: agent.timeout: expected a number above 0 and at most 2678400, found 0",
        ),
        (node(LLM + ", timeout: soon"), "wrong_type", None),
        (node(LLM + ", retries: -1"), "out_of_range", None),
        (
            node(LLM + ", on_error: ignore"),
            "unknown_word",
            '2:34: agent.on_error: expected fail or continue, found "ignore"',
        ),
        (node(LLM + ", max_tool_calls: 0"), "out_of_range", None),
        (node(LLM + ", approval: ask"), "wrong_type", None),
        (node(LLM + ", approval: {rules: }"), "wrong_type", None),
        (node(LLM + ", approval: {rules: [{}]}"), "missing_key", None),
        (
            node(LLM + ", can_exit_loop: 1"),
            "wrong_type",
            "2:39: agent.can_exit_loop: expected true or false, found a whole number",
        ),
        (
            node(LLM + ", can_exit_loop: '${A}'"),
            "wrong_type",
            "2:39: agent.can_exit_loop: expected true or false, found something else in ${A}",
        ),
        # Kinds of nodes
        (
            node(f"type: parallel, name: x, on_error: continue, {CHILD}"),
            "unknown_word",
            '2:39: agent.on_error: expected fail_fast or collect, found "continue"',
        ),
        (node(f"type: parallel, name: x, max_concurrency: 0, {CHILD}"), "out_of_range", None),
        (node(f"type: loop, name: x, max_iterations: 0, {CHILD}"), "out_of_range", None),
        (node("type: loop, name: x, agents: []"), "empty_list", None),
        (
            node(LLM + ", can_exit_loop: true"),
            "not_in_loop",
            "2:39: agent.can_exit_loop: there is no loop to exit (put the node below a loop node)",
        ),
        (
            node("type: sequential, name: x, agents: [{type: llm, name: y, can_exit_loop: '${YES}'}]"),
            "not_in_loop",
            None,
        ),
        (node("type: approval, name: x"), "missing_key", "2:3: agent: message is required"),
        (node("type: approval, name: x, message: ''"), "missing_key", None),
        (node(f"type: approval, name: x, message: m, {CHILD}"), "unknown_key", None),
        # Routers
        (node(ROUTER), "missing_key", "2:3: agent: model, prompt, fallbacks or routes is required"),
        (
            node(ROUTER + ", model: openai:n, routes: [{when: {k: 1}, agent: y}]"),
            "conflicting_keys",
            "2:3: agent: model and routes exclude each other; give one of them",
        ),
        (node(ROUTER + ", prompt: p, routes: [{when: {k: 1}, agent: y}]"), "conflicting_keys", None),
        (
            node(ROUTER + ", model: openai:n, default: y"),
            "conflicting_keys",
            "2:102: agent.default: default belongs to routes, which is not given",
        ),
        (
            node(ROUTER + ", routes: [{when: {k: 1}, agent: zebar}]"),
            "unknown_agent",
            '2:116: agent.routes[0].agent: none of the router\'s agents is called "zebar" '
            '(did you mean "zebra"?)',
        ),
        (
            node(ROUTER + ", routes: [{when: {k: 1}, agent: y}], default: '${A}'"),
            "unknown_agent",
            '2:130: agent.default: none of the router\'s agents is called "${A}" (its agents: "y", "zebra")',
        ),
        (
            node(
                "type: router, name: x, agents: [7, {type: llm, name: y}], routes: [{when: {k: 1}, agent: y}]"
            ),
            "wrong_type",
            None,
        ),
        (node(ROUTER + ", routes: []"), "empty_list", None),
        (
            node(ROUTER + ", routes: [{when: {}, agent: y}]"),
            "empty_mapping",
            "2:101: agent.routes[0].when: the mapping is empty",
        ),
        (node(ROUTER + ", routes: [{agent: y}]"), "missing_key", None),
        (node(ROUTER + ", routes: [{when: {k: {abov: 1}}, agent: y}]"), "unknown_key", None),
        # Rules
        ("approval: {rules: ask}", "wrong_type", None),
        (rule("tool: x"), "missing_key", "3:7: approval.rules[0]: then is required"),
        (
            rule("then: allow"),
            "unknown_word",
            '3:14: approval.rules[0].then: expected run, ask or deny, found "allow" (did you mean "run"?)',
        ),
        (
            rule("then: approve"),
            "unknown_word",
            '3:14: approval.rules[0].then: expected run, ask or deny, found "approve" (did you mean "ask"?)',
        ),
        (
            "approval: {on_expiry: deny}",
            "unknown_word",
            '1:23: approval.on_expiry: expected reject or fail, found "deny" (did you mean "reject"?)',
        ),
        (
            rule("then: run, tols: x"),
            "unknown_key",
            '3:19: approval.rules[0].tols: unknown key "tols" (did you mean "tool"?)',
        ),
        (rule("then: run, zzzz: x"), "unknown_key", None),
        (rule("then: run, tool: ''"), "empty_value", None),
        (rule("then: run, tool: [a]"), "wrong_type", None),
        (rule("then: run, effect: write"), "unknown_word", None),
        (rule("then: run, place: here"), "unknown_key", None),
        (rule("then: run, arguments: [a]"), "wrong_type", None),
        (
            rule("then: run, name: n}\n    - {then: ask, name: n"),
            "duplicate_name",
            '4:25: approval.rules: duplicate name "n" (first used on line 3)',
        ),
        (rule("then: run, optional: 1"), "wrong_type", None),
        # Names that have to be known
        (
            SERVERS + node(LLM + ", mcp_servers: [filez]"),
            "unknown_server",
            '3:38: agent.mcp_servers[0]: no server is called "filez" (did you mean "files"?)',
        ),
        (
            SERVERS + node(LLM + ", mcp_servers: [files, '${NO:-secret}']"),
            "unknown_server",
            '3:45: agent.mcp_servers[1]: no server is called "${NO:-secret}"',
        ),
        (
            SERVERS + forwarding("files, 'a2a:files'"),
            "unknown_server",
            '4:31: auth.forward_credential[1]: no server is called "a2a:files" (did you mean "files"?)',
        ),
        ("auth: {forward_credential: [files]}", "conflicting_keys", None),
        *(
            (
                f"auth: {text}",
                "missing_key",
                "1:1: auth: auth accepts no credential (give api_keys: true, oidc or proxy)",
            )
            for text in ("{api_keys: false}", "{limits: {streams: 1}}")
        ),
        (
            "auth: {api_keys: true, roles: {viewer: {tools: [x]}}}",
            "duplicate_name",
            "1:32: auth.roles.viewer: the role viewer exists already (use another name)",
        ),
        (
            "auth: {proxy: {subject_header: X-User}}",
            "missing_key",
            "1:15: auth.proxy: secret or socket is required; otherwise any client could send the headers",
        ),
        (
            "auth: {proxy: {secret: s, roles_header: Authorization}}",
            "conflicting_keys",
            "1:41: auth.proxy.roles_header: Authorization has another meaning here",
        ),
        (
            "auth: {proxy: {secret: s, subject_header: X-Who, roles_header: x-who}}",
            "conflicting_keys",
            "1:43: auth.proxy.subject_header: subject_header and roles_header are the same header",
        ),
        (
            SERVERS + rule("then: ask, server: filez"),
            "unknown_server",
            '4:27: approval.rules[0].server: no server here is called "filez" (did you mean "files"?)',
        ),
        (
            rule("then: deny, node: agnet"),
            "unknown_node",
            '3:26: approval.rules[0].node: no node here is called "agnet" (did you mean "agent"?)',
        ),
        (
            node(
                "type: sequential, name: x, agents: [{type: llm, name: a}, "
                "{type: llm, name: b, approval: {rules: [{then: ask, node: a}]}}]"
            ),
            "unknown_node",
            None,
        ),
        (
            node("type: sequential, name: x, agents: [{type: llm, name: a}]")
            + "\napproval: {rules: [{then: deny, node: x}]}",
            "unknown_node",
            "3:39: approval.rules[0].node: only llm and a2a nodes make calls, and this node is neither "
            "(for the calls of all nodes below it, move the rule into the approval of that node)",
        ),
        ("approval: {expires_after: 0}", "out_of_range", None),
        ("approval: {expires_after: 1h}", "wrong_type", None),
        ("approval: {in_loop: deny}", "unknown_word", None),
        # Conditions
        (
            condition("[1]"),
            "wrong_type",
            f"3:34: approval.rules[0].arguments.a: expected {CONDITION}, found a list",
        ),
        (condition(""), "wrong_type", None),
        (
            condition("{}"),
            "empty_mapping",
            "3:34: approval.rules[0].arguments.a: the mapping is empty; it needs equals, one_of, matches, "
            "above, below or exists",
        ),
        (
            condition("{equal: 1}"),
            "unknown_key",
            '3:35: approval.rules[0].arguments.a.equal: unknown key "equal" (did you mean "equals"?)',
        ),
        (
            rule("then: run, only_these_arguments: true, arguments: {a.b: {below: 9}}"),
            "missing_key",
            "3:72: approval.rules[0].arguments.a.b.below: in a rule with only_these_arguments, a range has "
            "both ends; above is missing (add above)",
        ),
        (
            node(
                LLM + ", approval: {rules: [{then: deny, only_these_arguments: true, "
                "arguments: {a: {above: 1, equals: 5}}}]}"
            ),
            "missing_key",
            "2:107: agent.approval.rules[0].arguments.a.above: in a rule with only_these_arguments, a range "
            "has both ends; below is missing (add below)",
        ),
        (rule("then: run, only_these_arguments: 1"), "wrong_type", None),
        (condition("{equals: [1]}"), "wrong_type", None),
        (condition("{equals: }"), "wrong_type", None),
        (condition("{one_of: x}"), "wrong_type", None),
        (condition("{one_of: []}"), "empty_list", None),
        (condition("{one_of: [{}]}"), "wrong_type", None),
        (condition("{above: high}"), "wrong_type", None),
        (condition("{below: .nan}"), "out_of_range", None),
        (condition("{exists: 'yes'}"), "wrong_type", None),
        (condition("{matches: 5}"), "wrong_type", None),
        (
            condition("{matches: 'a(b'}"),
            "bad_expression",
            "3:44: approval.rules[0].arguments.a.matches: this is not a regular expression, "
            "wrong at character 4",
        ),
        (condition("{matches: '${A}('}"), "bad_expression", None),
        (condition("{matches: ''}"), "empty_value", None),
        # Limits
        ("limits: {max_turns: 0}", "out_of_range", None),
        ("limits: {timeout: 0}", "out_of_range", None),
        ("limits: {turns: 1}", "unknown_key", None),
    ],
)
def test_mistake_in_a_tree_or_policy_is_reported(
    problems: Problems, text: str, code: str, expected: str | None
) -> None:
    found = problems(text, {"A": "a", "YES": "true"})
    assert [problem.code for problem in found] == [code]
    assert found[0].line is not None
    assert expected is None or placed(found[0]) == expected


def test_all_mistakes_of_tree_and_policy_are_reported_together(problems: Problems) -> None:
    text = """\
approval:
  rules:
    - {tool: x}
    - {then: run, arguments: {a: {matches: "("}}}
agent:
  type: router
  name: root
  routes: [{when: {}, agent: nobody}]
  agents:
    - {type: loop, name: again, max_iterations: none, agents: [{type: approval, name: root}]}
    - {type: llm, name: out, can_exit_loop: true, mcp_servers: x}
    - {type: nothing, agents: [{type: parallel, name: p, on_error: fail, agents: []}]}
"""
    assert [(problem.line, problem.code) for problem in problems(text)] == [
        (3, "missing_key"),
        (4, "bad_expression"),
        (8, "empty_mapping"),
        (8, "unknown_agent"),
        (10, "wrong_type"),
        (10, "missing_key"),
        (10, "duplicate_name"),
        (11, "not_in_loop"),
        (11, "wrong_type"),
        (12, "unknown_node_type"),
        (12, "unknown_word"),
        (12, "empty_list"),
    ]


def test_expected_and_found_stand_by_themselves(problems: Problems) -> None:
    (problem,) = problems("port: x")
    assert (problem.expected, problem.found) == ("a whole number from 0 to 65535", "text")
    assert (problem.line, problem.column, problem.key) == (1, 7, "port")


TEN = """\
naem: x
port: eighty
host: 7
mcp: {url: http://x}
llm: {model: "${NOT_SET}"}
mcp_servers:
  - url: http://a/mcp
  - {name: a, url: http://a/mcp, command: b}
agent:
  type: sequential
  name: root
  agents:
    - {type: future, name: again, agents: [{type: llm, name: root}]}
    - {type: llm, name: last, max_turns: 0, prompt: hello}
"""


def test_ten_mistakes_are_ten_problems(load: Load) -> None:
    with pytest.raises(ConfigError) as caught:
        load(TEN)
    assert [(problem.line, problem.code) for problem in caught.value.problems] == [
        (1, "unknown_key"),
        (2, "wrong_type"),
        (3, "wrong_type"),
        (4, "renamed_key"),
        (5, "variable_unset"),
        (7, "missing_key"),
        (8, "conflicting_keys"),
        (13, "unknown_node_type"),
        (13, "duplicate_name"),
        (14, "out_of_range"),
    ]
    lines = str(caught.value).splitlines()
    assert len(lines) == 10
    assert all("agent.yaml:" in line for line in lines)


def test_what_is_inherited_is_reported_once(problems: Problems) -> None:
    text = "prompt: ${NO}\nllm: {model: [x]}\nagent:\n  type: parallel\n  name: p\n  agents:\n"
    text += "".join(f"    - {{type: llm, name: n{n}}}\n" for n in range(5))
    assert [(problem.line, problem.code) for problem in problems(text)] == [
        (1, "variable_unset"),
        (2, "wrong_type"),
    ]


def test_a_mistake_under_an_anchor_is_reported_once(problems: Problems) -> None:
    text = "mcp_servers:\n  - {name: a, command: x, args: &a [1]}\n  - {name: b, command: x, args: *a}\n"
    assert [problem.key for problem in problems(text)] == ["mcp_servers[0].args[0]"]


def test_a_long_list_of_problems_is_cut_in_words_only(load: Load) -> None:
    with pytest.raises(ConfigError) as caught:
        load("".join(f"key{n}: 1\n" for n in range(80)))
    assert len(caught.value.problems) == 80
    assert str(caught.value).splitlines()[50:] == ["... and 30 more"]


def test_a_key_is_shown_on_one_short_line(problems: Problems) -> None:
    (problem,) = problems(f'"a\\n\\e[31m{"b" * 500}": 1')
    assert len(problem.message) < 100
    assert str(problem).isprintable()


words = st.sampled_from(
    [
        "name",
        "agent",
        "type",
        "llm",
        "loop",
        "agents",
        "mcp_servers",
        "url",
        "command",
        "model",
        "port",
        "mcp",
        "approval",
        "rules",
        "then",
        "arguments",
        "matches",
        "router",
        "routes",
        "when",
        "can_exit_loop",
    ]
)
values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | words
    | st.sampled_from(["${A}", "${", "${B:-1}"]),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(words, inner, max_size=5),
    max_leaves=20,
)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.dictionaries(words, values))
def test_any_file_is_read_or_refused(load: Load, data: object) -> None:
    problems: tuple[Problem, ...] | None = None
    try:
        load(yaml.safe_dump(data), {"A": "a"})
    except ConfigError as error:
        problems = error.problems
    assert problems is None or problems
    assert all(problem.code and problem.message and problem.line for problem in problems or ())
