import { type Static, Type } from "@sinclair/typebox";
import type { CallersContent, ContentCaller } from "../../policy/callers_content.ts";
import type { Call } from "../call.ts";
import { toAbortSignal } from "../../core/abort.ts";
import { listBody, listSchema } from "../list_body.ts";
import { jsonReply } from "../reply.ts";
import { defineRoute, type Route } from "../route.ts";

const Params = Type.Object({ server: Type.String({ minLength: 1, maxLength: 64 }) });
const Uri = Type.String({ minLength: 1, maxLength: 2048 });
const PromptParams = Type.Object({
  server: Type.String({ minLength: 1, maxLength: 64 }),
  name: Type.String({ minLength: 1, maxLength: 256 }),
});

const described = {
  title: Type.Optional(Type.String()),
  description: Type.Optional(Type.String()),
};
const Resource = Type.Object({
  uri: Type.String(),
  name: Type.String(),
  ...described,
  mimeType: Type.Optional(Type.String()),
  size: Type.Optional(Type.Integer({ description: "Bytes, where the server says them" })),
});
const Template = Type.Object({
  uriTemplate: Type.String({ description: "RFC 6570" }),
  name: Type.String(),
  ...described,
  mimeType: Type.Optional(Type.String()),
});
const Prompt = Type.Object({
  name: Type.String(),
  ...described,
  arguments: Type.Array(
    Type.Object({ name: Type.String(), ...described, required: Type.Boolean() }),
  ),
});
const Contents = Type.Object({
  contents: Type.Array(Type.Object({
    uri: Type.String(),
    mimeType: Type.Optional(Type.String()),
    text: Type.Optional(Type.String()),
    blob: Type.Optional(Type.String({ description: "Base64" })),
  })),
});
const Filled = Type.Object({
  description: Type.Optional(Type.String()),
  messages: Type.Array(Type.Object({ role: Type.String(), content: Type.Object({}) })),
});
const Texts = Type.Record(Type.String(), Type.String({ maxLength: 100_000 }), {
  additionalProperties: false,
});
const PromptBody = Type.Object({ arguments: Type.Optional(Texts) }, {
  additionalProperties: false,
});
const closed = { additionalProperties: false } as const;
const CompleteBody = Type.Object({
  ref: Type.Union([
    Type.Object({ type: Type.Literal("ref/prompt"), name: Type.String({ minLength: 1 }) }, closed),
    Type.Object({ type: Type.Literal("ref/resource"), uri: Uri }, closed),
  ], { description: "The prompt, or the template of resources" }),
  argument: Type.Object({ name: Type.String(), value: Type.String({ maxLength: 10_000 }) }, closed),
  context: Type.Optional(Type.Object({ arguments: Type.Optional(Texts) }, closed)),
}, closed);
const Completion = Type.Object({
  values: Type.Array(Type.String()),
  total: Type.Optional(Type.Number()),
  hasMore: Type.Optional(Type.Boolean()),
});

const list = <T extends typeof Resource | typeof Template | typeof Prompt>(schema: T) => ({
  200: {
    description: "All that the key may use",
    schema: listSchema(schema),
  },
  404: { description: "There is no such server" },
  502: { description: "The server is not available, or failed" },
});
const one = (schema: typeof Contents | typeof Filled | typeof Completion) => ({
  200: { description: "What the server gave", schema },
  404: { description: "There is no such thing, or the key may not use it" },
  502: { description: "The server is not available, or failed" },
});

/** What MCP servers have beside tools, for applications. */
export function mcpContentRoutes({ content }: { content: CallersContent }): Route[] {
  const facts = { auth: "user", tag: "mcp" } as const;
  const callerOf = ({ principal, signal }: Call<unknown, unknown, unknown>): ContentCaller => ({
    tenantId: principal.tenantId,
    keyId: principal.keyId,
    signal: toAbortSignal(signal),
  });
  const listed = async (call: Call<Static<typeof Params>>) => {
    const caller = callerOf(call);
    return await content.list(caller, await content.find(caller, call.params.server));
  };
  return [
    defineRoute({
      ...facts,
      method: "GET",
      path: "/v1/mcp/:server/resources",
      summary: "List the resources of an MCP server",
      params: Params,
      responses: list(Resource),
      handle: async (call) => jsonReply(listBody((await listed(call)).resources)),
    }),
    defineRoute({
      ...facts,
      method: "GET",
      path: "/v1/mcp/:server/resource-templates",
      summary: "List the templates of resources of an MCP server",
      params: Params,
      responses: list(Template),
      handle: async (call) => jsonReply(listBody((await listed(call)).templates)),
    }),
    defineRoute({
      ...facts,
      method: "GET",
      path: "/v1/mcp/:server/prompts",
      summary: "List the prompts of an MCP server",
      params: Params,
      responses: list(Prompt),
      handle: async (call) => jsonReply(listBody((await listed(call)).prompts)),
    }),
    defineRoute({
      ...facts,
      method: "GET",
      path: "/v1/mcp/:server/resource",
      summary: "Read a resource of an MCP server",
      params: Params,
      query: Type.Object({ uri: Uri }, closed),
      responses: one(Contents),
      async handle(call) {
        const caller = callerOf(call);
        const connection = await content.find(caller, call.params.server);
        return jsonReply({ contents: await content.read(caller, connection, call.query.uri) });
      },
    }),
    defineRoute({
      ...facts,
      method: "POST",
      path: "/v1/mcp/:server/prompts/:name",
      summary: "Fill a prompt of an MCP server",
      params: PromptParams,
      body: PromptBody,
      responses: one(Filled),
      async handle(call) {
        const caller = callerOf(call);
        const { params: { server, name }, body } = call;
        const connection = await content.find(caller, server);
        const wish = { name, arguments: body.arguments ?? {} };
        return jsonReply(await content.prompt(caller, connection, wish));
      },
    }),
    defineRoute({
      ...facts,
      method: "POST",
      path: "/v1/mcp/:server/complete",
      summary: "What could stand in an argument of a prompt or template of an MCP server",
      params: Params,
      body: CompleteBody,
      responses: one(Completion),
      async handle(call) {
        const caller = callerOf(call);
        const { context, ...wish } = call.body;
        const connection = await content.find(caller, call.params.server);
        return jsonReply(
          await content.complete(caller, connection, {
            ...wish,
            ...context?.arguments === undefined
              ? {}
              : { context: { arguments: context.arguments } },
          }),
        );
      },
    }),
  ];
}
