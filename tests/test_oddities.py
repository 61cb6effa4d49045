"""Each row about an odd server, client or place in the reference has a test, which this table names."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent

TABLE = r"""
docs/reference/models.md
  tests/actors/models/providers/test_responses_codec.py
    A schema is made strict > test_tool_turn_sends_the_reasoning_and_the_call_back
    `status` and null members > test_members_that_the_server_refuses_are_not_sent_back
    Reasoning without > test_reasoning_that_cannot_be_sent_takes_the_ids_after_it_along
    Ids of calls longer > test_ids_that_the_server_refuses_are_replaced_or_left_out
    A last event with `output: []` > test_items_of_the_stream_do_without_the_list
    One `output_index` > test_items_with_one_index_are_all_read
    The arguments are missing > test_arguments_that_the_last_event_leaves_out_are_those_of_the_pieces
    `keepalive` > test_events_that_mean_nothing_are_harmless
    The stream ends after all items > test_stream_without_its_last_event_is_cut_off
    Reasoning as plain text > test_compatible_server_gets_instructions_and_plain_reasoning
  tests/actors/models/providers/test_openai_model.py
    `store` is refused > test_groq_is_not_sent_store
  tests/actors/tools/test_schema_repair.py
    Keywords of older drafts > test_older_keyword_keeps_its_meaning
    `nullable`, types > test_older_keyword_keeps_its_meaning
    `required: null` > test_older_keyword_keeps_its_meaning
    `true` and `false` > test_older_keyword_keeps_its_meaning
    Choices of another type > test_older_keyword_keeps_its_meaning
    A keyword with a meaningless value > test_only_an_invalid_constraint_is_lost
    A `$ref` to another place > test_every_reference_leads_to_a_definition_at_the_top
    A `$ref` that leads nowhere > test_every_reference_leads_to_a_definition_at_the_top
  tests/actors/models/test_plain_schema.py
    `oneOf`, `anyOf` or `allOf` > test_what_no_provider_accepts_at_the_top_is_declared_side_by_side
    An argument such as `$top` > test_argument_that_a_provider_cannot_name_is_told_in_words
  tests/actors/models/test_refused_tools.py
    A 400 or 422 that names a tool > test_turn_goes_on_without_the_named_tool_and_says_so
  tests/actors/models/providers/test_openai_codec.py
    A first event without choices > test_events_of_a_content_filter_change_nothing
  tests/actors/models/providers/test_azure_model.py
    A prompt that the content filter refuses > test_filtered_prompt_names_the_filters
    `DeploymentNotFound` > test_missing_deployment_is_named
    A rate limit inside a stream > test_rate_limit_within_a_stream_is_retryable
    The Responses API is not below > test_address_follows_the_version
  tests/actors/models/test_open_model.py
    `num_ctx` and `keep_alive` > test_options_of_ollamas_own_api_select_it
  tests/actors/models/providers/test_ollama_codec.py
    A line of a stream is an error > test_stream_without_a_whole_reply_fails
    An answer of the model that was only loaded > test_stream_without_a_whole_reply_fails
  tests/actors/models/providers/test_vertex_model.py
    Claude's model is in the address > test_body_of_claude_has_its_version_and_no_model
    An error is a list > test_errors_in_a_list_are_read
    A call without an id | Gemini > test_calls_of_gemini_without_ids_are_answered
    Thoughts and signatures of another service > test_signatures_go_to_their_own_service_only
  tests/actors/models/providers/test_framing.py
    Frames with checksums > test_frames_are_the_same_however_they_are_cut
  tests/actors/models/providers/test_bedrock_model.py
    An exception inside a stream > test_exception_in_a_stream_is_an_error
    A stream that just stops > test_damaged_frame_and_early_end_are_retryable
    `Too many tokens per day` > test_error_is_told_with_what_to_do
    A signature that is not accepted > test_error_is_told_with_what_to_do
  tests/actors/models/providers/test_converse_codec.py
    The usage comes after > test_stream_is_read_to_the_usage_after_the_end
    A call without a piece > test_stream_is_read_to_the_usage_after_the_end
    Tools must be declared > test_history_of_calls_goes_with_its_tools_when_none_is_offered
    Blank texts > test_empty_description_is_left_out
docs/guides/mcp-servers.md
  tests/actors/mcp/test_http.py
    an old session > test_lost_session_is_reopened_and_call_runs_once
    502 or 503 > test_session_that_a_gateway_lost_is_reopened_and_the_call_is_unknown
    307 or 308 > test_every_request_follows_a_redirect_within_the_server
  tests/actors/mcp/test_legacy_sse.py
    the endpoint of an SSE server > test_endpoint_is_at_the_origin_of_the_stream
  tests/actors/mcp/test_tool_list.py
    `tools/list` is unknown > test_server_is_asked_only_for_declared_tools
  tests/actors/mcp/test_modes.py
    the end at the first > test_command_that_ends_when_asked_is_started_once_more_and_remembered
  tests/actors/mcp/test_eras.py
    a question during a call > test_question_during_a_call_needs_mode_legacy
  tests/actors/mcp/test_http.py
    a byte order mark > test_every_reply_may_be_framed_oddly
  tests/actors/mcp/test_incoming.py
    messages in a batch > test_batch_is_split_into_its_messages
  tests/actors/mcp/test_wire.py
    a result with a block > test_malformed_result_keeps_all_that_can_be_read
    a tool with `[]` > test_tool_with_an_odd_schema_is_kept
  tests/actors/mcp/test_incoming.py
    a reply without > test_result_of_a_reply_that_breaks_the_rules_is_kept
  tests/actors/mcp/test_wire.py
    a summary as text > test_setting_says_how_structured_content_is_shown
  tests/actors/mcp/test_in_flight.py
    progress during a long call > test_progress_begins_the_timeout_anew
docs/reference/a2a.md
  tests/gateway/a2a/test_task_streams.py
    A client stops > test_no_frame_asks_after_all_is_decided
  tests/gateway/a2a/test_task_answer.py
    A client shows only text > test_text_that_asks_names_the_form_that_works
  tests/gateway/a2a/test_tasks.py
    A client keeps the context > test_message_with_only_the_context_answers_its_pending_task
    A client keeps neither > test_decision_with_the_id_needs_neither_task_nor_context
  tests/gateway/a2a/test_task_answer.py
    A decision names no approval > test_decision_of_kagents_tool_is_one_of_the_only_question
  tests/gateway/a2a/test_task_messages.py
    A client accepts only JSON > test_only_accepted_media_types_are_sent
  tests/gateway/a2a/test_cards.py
    A client refuses a skill > test_skills_follow_the_tool_list
  tests/actors/a2a/test_answers_that_arrived.py
    A task that has just ended > test_ended_task_that_cannot_be_read_is_the_answer
    A task that is read has no artifacts > test_task_that_can_be_read_counts
    A read task stays > test_task_that_can_be_read_counts
    A stream begins with a task > test_ended_task_that_cannot_be_read_is_the_answer
  tests/actors/a2a/test_foreign_questions.py
    Approvals in the extension > test_questions_of_kagent
    Approvals as calls of > test_questions_of_adk_and_strands
    Approvals as `interrupts` > test_answer_to_strands_is_the_response_of_the_interrupt
    All answers are expected > test_all_answers_are_one_message
    The agent asks the same again > test_same_question_after_the_answer_is_told
    Data or a file beside > test_all_that_a_question_says_is_shown
    The agent ends without > test_end_without_the_approved_call_is_an_error
  tests/actors/a2a/test_changed_questions.py
    A question has another text > test_answer_is_not_sent_to_a_changed_question
    A form that asks > test_form_that_asks_for_a_secret_is_declined
  tests/actors/a2a/wire/test_card_reader.py
    The card names `0.0 > test_path_of_an_interface_at_a_listen_address_is_called_at_the_configured_origin
    The card names a path alone > test_url_of_another_form_means_the_agent
    The card names paths without > test_path_before_the_card_is_tried_first
  tests/actors/a2a/test_remote_state.py
    Parts with the reasoning > test_marks_of_reasoning
    An artifact without a text > test_reasoning_and_empty_parts_are_no_answer
  tests/actors/a2a/test_answers_that_arrived.py
    A text comes in pieces > test_text_that_came_in_pieces_is_read_as_one
docs/reference/platforms.md
  tests/actors/common/test_http_proxies.py
    `ALL_PROXY=socks > test_proxy_for_each_url
    A proxy refuses > test_answer_of_a_proxy_is_no_answer_of_the_server
  tests/actors/common/test_tls.py
    A file of certificates > test_authorities_that_cannot_be_read
  tests/deployment/test_files.py
    `HTTP_PROXY` in each > test_health_checks_use_no_proxy
  tests/gateway/test_http_server.py
    `host: "::"` > test_every_address_means_those_of_ipv4_too
  tests/gateway/test_init_process.py
    No other process 1 > test_signals_are_passed_on_and_the_exit_code_is_that_of_the_child
  tests/gateway/test_http_server.py
    Idle connections > test_idle_connection_is_kept_as_long_as_the_server_says
  tests/gateway/test_cli.py
    SIGHUP > test_one_signal_lets_a_turn_finish
  tests/gateway/test_below_a_path.py
    A path before the agent > test_everything_is_found_below_the_path
  tests/runtime/journal/test_postgres.py
    A database that is not UTF-8 > test_database_in_another_encoding_is_refused
    A pooler > test_pooler_that_shares_sessions_is_refused
  tests/gateway/auth/test_jwt_verifier.py
    Roles inside objects > test_claim_is_found_by_its_name_or_inside_objects
  tests/actors/mcp/test_masking.py
    A secret that is a common word > test_secret_that_is_a_word_is_masked_where_it_is_a_secret
  tests/runtime/test_visible_text.py
    Characters that cannot be seen > test_hidden_characters_are_escaped_on_each_surface
"""
"""By page and file of tests: the beginning of a row, and its test."""


def by_page() -> dict[str, dict[str, tuple[str, str]]]:
    """By page and beginning of a row: the file and the name of its test."""
    found: dict[str, dict[str, tuple[str, str]]] = {}
    page, file = "", ""
    for line in TABLE.strip().splitlines():
        begin, separator, test = line.strip().partition(" > ")
        if separator:
            found[page][begin] = (file, test)
        elif line.startswith(" "):
            file = begin
        else:
            page = begin
            found[page] = {}
    return found


def rows(page: str) -> list[str]:
    """The rows of the tables whose first column is `oddity`."""
    found: list[str] = []
    is_inside = False
    for line in (ROOT / page).read_text().splitlines():
        begins = line.startswith("| oddity ")
        is_inside = line.startswith("|") and (is_inside or begins)
        if is_inside and not begins and not line.startswith("|---"):
            found.append(line.removeprefix("| "))
    return found


@pytest.mark.parametrize("page", by_page())
def test_each_row_has_a_test(page: str) -> None:
    named = {row: [begin for begin in by_page()[page] if row.startswith(begin)] for row in rows(page)}
    assert [row for row, begins in named.items() if len(begins) != 1] == []
    assert {begin for begins in named.values() for begin in begins} == set(by_page()[page])


@pytest.mark.parametrize(
    ("file", "test"), sorted({each for by_row in by_page().values() for each in by_row.values()})
)
def test_named_test_exists(file: str, test: str) -> None:
    assert re.search(rf"^(async )?def {test}\(", (ROOT / file).read_text(), re.MULTILINE)
