import assert from "node:assert/strict";
import { errorBody } from "../../../src/http/on_error.ts";
import { createRedactor } from "../../../src/telemetry/redact.ts";
import { readProviderError } from "../../../src/wire/errors/read_error.ts";
import { messagesErrorBody } from "../../../src/wire/messages/error_body.ts";
import { toResponseError } from "../../../src/wire/openai_responses/failure.ts";
import { toAnswerError, toUpstreamError } from "../../../src/wire/upstream_error.ts";
import type { WireName } from "../../../src/wire/wire_dialect.ts";
import {
  ANTHROPIC_SHAPE,
  assertTellsNothing,
  CANARIES,
  GOOGLE_SHAPE,
  OPENAI_SHAPES,
  SAID,
} from "../../support/error_shapes.ts";

const { redact } = createRedactor({ secrets: [CANARIES.key] });
const SHAPES = [...OPENAI_SHAPES, ANTHROPIC_SHAPE, GOOGLE_SHAPE];
const WIRES: readonly WireName[] = ["chat", "completions", "embeddings", "responses", "messages"];
const PRIVATE = new Set([401, 402, 403]);
/** Most failures of a server are those of a gateway's upstream. */
const statusShown = (status: number) =>
  PRIVATE.has(status) || (status > 499 && ![500, 503, 529].includes(status)) ? 502 : status;

const toError = (body: string, { status = 400, wire = "chat" as WireName } = {}) =>
  toUpstreamError({ status, body, headers: {}, nowMs: 0, redact, wire });

Deno.test("toUpstreamError: every status of every kind of server, in every dialect, tells its words and nothing of the provider", () => {
  for (const shape of SHAPES) {
    for (let status = 400; status <= 599; status++) {
      for (const wire of WIRES) {
        const where = `${shape.name} ${status} ${wire}`;
        const error = toError(shape.body(status), { status, wire });
        const bodies = [
          errorBody(error),
          messagesErrorBody(error, "req_2"),
          toResponseError(error),
        ];
        for (const body of bodies) {
          const shown = JSON.stringify(body);
          assertTellsNothing(shown, where);
          assert.equal(shown.includes(SAID), shape.speaks && !PRIVATE.has(status), where);
        }
        assert.equal(error.status, statusShown(status), where);
      }
    }
  }
});

Deno.test("toUpstreamError: type, code and param are the provider's in its own dialect", () => {
  for (const shape of OPENAI_SHAPES) {
    for (const status of [400, 404, 422, 500, 503]) {
      const { error } = errorBody(toError(shape.body(status), { status }));
      assert.equal(
        error.code,
        shape.code ?? (status < 500 ? "upstream_rejected" : "upstream_error"),
      );
      const own = status < 500 ? "invalid_request_error" : "server_error";
      assert.equal(error.type, shape.type ?? own, shape.name);
      assert.equal(error.param, shape.param ?? null, shape.name);
    }
  }
  const router = OPENAI_SHAPES.find(({ name }) => name === "openrouter");
  assert.ok(router);
  const { error } = errorBody(toError(router.body(400)));
  assert.equal(Reflect.get(Object(Reflect.get(error, "metadata")), "provider_name"), "Fruit");
});

Deno.test("toUpstreamError: Anthropic's type and details reach clients of its dialect", () => {
  const error = toError(ANTHROPIC_SHAPE.body(400), { wire: "messages" });
  const shown = messagesErrorBody(error, "req_2");
  assert.deepEqual(Reflect.get(Object(shown["error"]), "details"), {
    error_code: "thread_unsupported_request",
    seen: "[address]",
  });
  const busy = toError(
    '{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}',
    {
      status: 529,
      wire: "messages",
    },
  );
  assert.deepEqual(messagesErrorBody(busy, "r")["error"], {
    type: "overloaded_error",
    message: "Overloaded",
  });
});

Deno.test("toUpstreamError: an empty account is no limit that passes", () => {
  const body = JSON.stringify({
    error: {
      message: "You exceeded your current quota",
      type: "insufficient_quota",
      param: null,
      code: "insufficient_quota",
    },
  });
  const error = toError(body, { status: 429 });
  assert.equal(error.kind.retryable, false);
  assert.deepEqual(errorBody(error).error, {
    message: "You exceeded your current quota",
    type: "insufficient_quota",
    param: null,
    code: "insufficient_quota",
  });
  assert.equal(
    Reflect.get(Object(messagesErrorBody(error, "r")["error"]), "type"),
    "billing_error",
  );
});

Deno.test("toAnswerError: an error in a stream has the status it stands for, until something was shown", () => {
  const told = (type: string) => readProviderError({ error: { type, message: "m" } }, redact);
  const statusOf = (type: string, isShown = false) => {
    const { status, code } = toAnswerError(told(type), { wire: "messages", isShown });
    return `${status} ${code}`;
  };
  assert.equal(statusOf("overloaded_error"), "529 upstream_error");
  assert.equal(statusOf("overloaded_error", true), "529 upstream_error");
  assert.equal(statusOf("rate_limit_error"), "429 upstream_rate_limited");
  assert.equal(statusOf("not_found_error"), "404 upstream_rejected");
  assert.equal(statusOf("not_found_error", true), "502 upstream_error");
  assert.equal(statusOf("authentication_error", true), "502 upstream_unauthorized");
  assert.equal(statusOf("api_error"), "502 upstream_error");
});

Deno.test("readProviderError: what is deep, long or many is bounded", () => {
  let deep: unknown = CANARIES.url;
  for (let depth = 0; depth < 2000; depth++) deep = { more: [deep] };
  const many = Object.fromEntries(
    Array.from({ length: 5000 }, (_, at) => [`m${at}`, "x".repeat(50)]),
  );
  for (const extra of [deep, many, "y".repeat(1_000_000), [[["z".repeat(9000)]]]]) {
    const { message, extra: shown } = readProviderError({
      error: { message: `${"w".repeat(400)} ${CANARIES.url} ${"v".repeat(100_000)}`, extra },
    }, redact);
    assert.ok(message.length <= 500, String(message.length));
    assert.ok(JSON.stringify(shown).length <= 4200);
    assertTellsNothing(JSON.stringify([message, shown]), "bounded");
  }
});
