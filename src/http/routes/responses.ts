import { Type } from "@sinclair/typebox";
import { HubError } from "../../core/error.ts";
import type { JsonObject } from "../../core/json.ts";
import { accessOf } from "../../core/ownership.ts";
import type { StoredResponse } from "../../store/responses.ts";
import { outputOf } from "../../wire/openai_responses/kept_items.ts";
import { hideEncrypted, withoutEncrypted } from "../../wire/openai_responses/response_writer.ts";
import type { Redact } from "../../wire/provider_text.ts";
import { CACHE_FIELDS } from "../cache_header.ts";
import type { Call } from "../call.ts";
import { IDEMPOTENCY_HEADER } from "../idempotency_key.ts";
import { jsonReply, type Reply } from "../reply.ts";
import { followReply } from "../responses/background_reply.ts";
import { createResponse } from "../responses/create_response.ts";
import type { ResponsesOptions } from "../responses/responses_options.ts";
import { laneOf } from "../responses/response_plan.ts";
import { forward } from "../responses/forward.ts";
import { defineRoute, type Route } from "../route.ts";

const Params = Type.Object({ id: Type.String({ maxLength: 200 }) });
const Include = Type.Optional(Type.Array(Type.String({ maxLength: 100 })));
/** Lists come as `include=` and, from OpenAI's own clients, as `include[]=`. */
const Included = { include: Include, "include[]": Include };
type Including = { include?: string[]; "include[]"?: string[] };

/** What the routes need. */
export type ResponsesRouteOptions = ResponsesOptions & { redact: Redact };

/** OpenAI's Responses: created, found again, cancelled and deleted. */
export function responsesRoutes(options: ResponsesRouteOptions): Route[] {
  const found = { 404: { description: "The key has no such response" } };
  return [
    defineRoute({
      method: "POST",
      path: "/v1/responses",
      auth: "user",
      tag: "proxy",
      summary: "A response, streamed or not, or made in the background",
      description:
        "OpenAI's endpoint. Providers that serve it get the request as it is, for others it is translated.",
      headers: { ...IDEMPOTENCY_HEADER, ...CACHE_FIELDS },
      body: "raw",
      responses: {
        200: { description: "The response", contentType: "application/json", orStream: true },
        400: { description: "The request is not valid, or no target of the model can carry it" },
        404: { description: "There is no such model" },
        409: { description: "The answer under the idempotency key was too large to be kept" },
        422: { description: "The idempotency key came before with another body" },
        429: { description: "Too many background responses are under way" },
      },
      handle: (call) => createResponse(call, options),
    }),
    defineRoute({
      method: "GET",
      path: "/v1/responses/:id",
      auth: "user",
      takesRoom: false,
      tag: "proxy",
      summary: "A stored response",
      description: "With `stream=true` the events of a background response.",
      params: Params,
      query: Type.Object({
        stream: Type.Optional(Type.Boolean()),
        starting_after: Type.Optional(
          Type.Integer({ description: "Number of the last event that is known" }),
        ),
        include_obfuscation: Type.Optional(Type.Boolean()),
        ...Included,
      }),
      responses: {
        200: { description: "The response", contentType: "application/json", orStream: true },
        ...found,
      },
      async handle(call) {
        const stored = await find(call, options);
        const { stream = false, starting_after: after = -1 } = call.query;
        if (stored.target !== null) return await ask(call, { stored, method: "GET", options });
        if (!stream) return jsonReply(show(stored, call.query));
        if (stored.background) {
          const showEncrypted = isAsked(call.query);
          const key = keyOf(call, stored.responseId);
          return followReply(call, { key, after, showEncrypted, options });
        }
        throw new HubError("invalid_request", "Only a background response can be streamed again", {
          param: "stream",
        });
      },
    }),
    defineRoute({
      method: "DELETE",
      path: "/v1/responses/:id",
      auth: "user",
      takesRoom: false,
      tag: "proxy",
      summary: "Delete a stored response",
      params: Params,
      responses: {
        200: { description: "It is gone", contentType: "application/json" },
        ...found,
      },
      async handle(call) {
        const stored = await find(call, options);
        const key = keyOf(call, stored.responseId);
        const reply = stored.target === null
          ? jsonReply({ id: stored.responseId, object: "response", deleted: true })
          : await ask(call, { stored, method: "DELETE", options });
        if (stored.background) await options.background.cancel(key);
        await options.kept.delete(key);
        return reply;
      },
    }),
    defineRoute({
      method: "POST",
      path: "/v1/responses/:id/cancel",
      auth: "user",
      takesRoom: false,
      tag: "proxy",
      summary: "Stop a background response",
      params: Params,
      responses: {
        200: { description: "The response as it ended", contentType: "application/json" },
        400: { description: "It was not made in the background" },
        ...found,
      },
      async handle(call) {
        const stored = await find(call, options);
        if (stored.target !== null) {
          return await ask(call, { stored, method: "POST", suffix: "/cancel", options });
        }
        if (!stored.background) {
          throw new HubError("invalid_request", "Cannot cancel a synchronous response.");
        }
        await options.background.cancel(keyOf(call, stored.responseId));
        return jsonReply(show(await find(call, options), {}));
      },
    }),
    defineRoute({
      method: "GET",
      path: "/v1/responses/:id/input_items",
      auth: "user",
      takesRoom: false,
      tag: "proxy",
      summary: "What a stored response was made from",
      params: Params,
      query: Type.Object({
        limit: Type.Optional(Type.Integer({ minimum: 1, maximum: 100 })),
        order: Type.Optional(Type.Union([Type.Literal("asc"), Type.Literal("desc")])),
        after: Type.Optional(Type.String({ maxLength: 200 })),
        ...Included,
      }),
      responses: {
        200: { description: "A page of items", contentType: "application/json" },
        ...found,
      },
      async handle(call) {
        const stored = await find(call, options);
        if (stored.target !== null) {
          return await ask(call, { stored, method: "GET", suffix: "/input_items", options });
        }
        const chain = await options.kept.chain(keyOf(call, stored.responseId));
        const items = chain.flatMap(({ input, response }, index) =>
          index === chain.length - 1 ? input : [...input, ...outputOf(response)]
        );
        const shown = isAsked(call.query) ? items : items.map(hideEncrypted);
        return jsonReply(toPage(shown, call.query));
      },
    }),
  ];
}

function keyOf({ principal }: Call, responseId: string) {
  return { ...accessOf(principal), responseId };
}

async function find(
  call: Call<{ id: string }>,
  { kept, background }: ResponsesOptions,
): Promise<StoredResponse> {
  const key = keyOf(call, call.params.id);
  const stored = await kept.find(key);
  const now = stored?.background === true ? await background.find(key) : stored;
  if (now !== null) return now;
  throw new HubError("not_found", `Response with id '${call.params.id}' not found.`, {
    param: "id",
  });
}

function ask(
  call: Call<{ id: string }>,
  { stored, method, suffix = "", options }: {
    stored: StoredResponse;
    method: "GET" | "POST" | "DELETE";
    suffix?: string;
    options: ResponsesRouteOptions;
  },
): Promise<Reply> {
  const [found] = options.resolve(stored.target ?? "");
  if (found === undefined) throw new HubError("not_found", "Its provider is not there any more");
  const { redact } = options;
  const target = laneOf(found, stored.lane);
  return forward(call, { target, method, responseId: stored.responseId, suffix, redact });
}

function isAsked(query: Including): boolean {
  const all = [...query.include ?? [], ...query["include[]"] ?? []];
  return all.includes("reasoning.encrypted_content");
}

function show({ response }: StoredResponse, query: Including): JsonObject {
  const whole = response ?? {};
  return isAsked(query) ? whole : withoutEncrypted(whole);
}

function toPage(
  items: JsonObject[],
  { limit = 20, order = "desc", after }: { limit?: number; order?: string; after?: string },
) {
  const ordered = order === "asc" ? items : items.toReversed();
  const from = after === undefined ? 0 : ordered.findIndex(({ id }) => id === after) + 1;
  if (after !== undefined && from === 0) {
    throw new HubError("invalid_request", "after must be the id of an item of this response", {
      param: "after",
    });
  }
  const data = ordered.slice(from, from + limit);
  return {
    object: "list",
    data,
    first_id: data[0]?.["id"] ?? null,
    last_id: data.at(-1)?.["id"] ?? null,
    has_more: from + limit < ordered.length,
  };
}
