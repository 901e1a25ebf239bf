import type { JsonObject } from "../../src/core/json.ts";
import { type ContractAnswer, testDialect } from "./dialect_contract.ts";

const line = (value: object) => `${JSON.stringify({ model: "m", ...value })}\n`;

const toCalls = ({ calls = [] }: ContractAnswer) =>
  // Ollama numbers the calls of each response from 0.
  calls.map((call) => ({ function: { index: 0, name: call.name, arguments: call.arguments } }));

const endOf = ({ usage, finish = "stop" }: ContractAnswer) => ({
  done: true,
  done_reason: finish,
  total_duration: 5,
  ...(usage === undefined ? {} : { prompt_eval_count: usage.prompt, eval_count: usage.completion }),
});

testDialect({
  kind: "ollama",
  baseUrl: (origin) => origin,
  path: () => "/api/chat",
  credential: ["authorization", "Bearer sk-up"],
  streamType: "application/x-ndjson",
  whole: (answer) => ({
    model: "m",
    message: {
      role: "assistant",
      content: (answer.text ?? []).join(""),
      ...(answer.reasoning === undefined ? {} : { thinking: answer.reasoning }),
      ...(answer.calls === undefined ? {} : { tool_calls: toCalls(answer) }),
    },
    ...endOf(answer),
  }),
  frames(answer) {
    const message = (members: object) =>
      line({ message: { role: "assistant", content: "", ...members }, done: false });
    const frames = [
      message({}),
      ...(answer.reasoning === undefined ? [] : [message({ thinking: answer.reasoning })]),
      ...(answer.text ?? []).map((content) => message({ content })),
      ...toCalls(answer).map((call) => message({ tool_calls: [call] })),
      line({ message: { role: "assistant", content: "" }, ...endOf(answer) }),
    ];
    return { frames, before: 1 };
  },
  malformed: '{"model":"m","message":{"content":\n',
  errorFrame: (message) => `${JSON.stringify({ error: message })}\n`,
  errorBody: (_, message) => ({ error: message }),
  tooLong: {
    status: 400,
    body: {
      error: "the prompt is longer than the context length currently available to the model; " +
        "shorten the prompt",
    },
  },
  resultsIn: (request) =>
    (request.json.messages as JsonObject[])
      .filter(({ role }) => role === "tool")
      .map(({ content }) => String(content)),
  failuresIn: (request) =>
    (request.json.messages as JsonObject[])
      .flatMap(({ role, content }) =>
        role === "tool" ? /^Error: (.*)$/s.exec(String(content))?.[1] ?? [] : []
      ),
  signature: '"thinking":"Two things"',
});
