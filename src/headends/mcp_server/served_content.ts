import {
  type CompleteResult,
  type GetPromptResult,
  type ListPromptsResult,
  type ListResourcesResult,
  type ListResourceTemplatesResult,
  ProtocolError,
  ProtocolErrorCode,
  type ReadResourceResult,
  ResourceNotFoundError,
  type Server,
  type ServerContext,
} from "@modelcontextprotocol/server";
import { HubError } from "../../core/error.ts";
import type { Json } from "../../core/json.ts";
import type { McpConnection } from "../../mcp/connection.ts";
import { InputRequired } from "../../mcp/input_required.ts";
import { passedBlock, passedContents } from "../../mcp/passed_on.ts";
import type { CompletionWish } from "../../mcp/server_content.ts";
import { outwardUri, toolName } from "../../mcp/tool_names.ts";
import type { CallersContent, ContentCaller } from "../../policy/callers_content.ts";
import { toProtocolError } from "./protocol_error.ts";
import { findOwner, servedTo } from "./resource_owner.ts";
import { clientsAgain } from "./clients_ask.ts";
import type { Caller } from "./served_tool.ts";

/** Answers what clients ask of the resources and prompts of connected servers, as far as the caller goes. */
export function serveContent(
  server: Server,
  { content, callerOf }: {
    content: CallersContent;
    callerOf: (ctx: ServerContext) => Caller;
  },
): void {
  const asks = (ctx: ServerContext): ContentCaller => {
    const { principal } = callerOf(ctx);
    const { tenantId, keyId } = principal;
    return { tenantId, keyId, signal: ctx.mcpReq.signal, again: clientsAgain(ctx, principal) };
  };
  const served = (caller: ContentCaller) => servedTo(content, caller);
  const ownerOf = async (caller: ContentCaller, uri: string) => {
    const found = findOwner(await served(caller), uri);
    if (found === null) throw new ResourceNotFoundError(uri);
    return found;
  };
  const promptOf = async (caller: ContentCaller, name: string) => {
    for (const { connection, content: { prompts } } of await served(caller)) {
      const own = prompts.find((prompt) => toolName(connection.server, prompt.name) === name);
      if (own !== undefined) return { connection, name: own.name };
    }
    const shown = name.slice(0, 128);
    throw new ProtocolError(ProtocolErrorCode.InvalidParams, `There is no prompt ${shown}`);
  };

  server.setRequestHandler(
    "resources/list",
    async (_request, ctx): Promise<ListResourcesResult> => {
      const all = (await served(asks(ctx))).flatMap(({ connection, content: { resources } }) =>
        resources.map((own) => ({ ...own, uri: outwardUri(connection.server, own.uri) }))
      );
      return { resources: inOrder(all, ({ uri }) => uri) };
    },
  );
  server.setRequestHandler(
    "resources/templates/list",
    async (_request, ctx): Promise<ListResourceTemplatesResult> => {
      const all = (await served(asks(ctx))).flatMap(({ connection, content: { templates } }) =>
        templates.map((own) => ({
          ...own,
          uriTemplate: outwardUri(connection.server, own.uriTemplate),
        }))
      );
      return { resourceTemplates: inOrder(all, ({ uriTemplate }) => uriTemplate) };
    },
  );
  server.setRequestHandler("prompts/list", async (_request, ctx): Promise<ListPromptsResult> => {
    const all = (await served(asks(ctx))).flatMap(({ connection, content: { prompts } }) =>
      prompts.map((own) => ({ ...own, name: toolName(connection.server, own.name) }))
    );
    return { prompts: inOrder(all, ({ name }) => name) };
  });
  server.setRequestHandler(
    "resources/read",
    ({ params: { uri } }, ctx) =>
      orWanted(async (): Promise<ReadResourceResult> => {
        const caller = asks(ctx);
        const { connection, own } = await ownerOf(caller, uri);
        const found = await content.read(caller, connection, own).catch((error: unknown) => {
          const isGone = error instanceof HubError && error.code === "not_found";
          throw isGone ? new ResourceNotFoundError(uri) : toProtocolError(error);
        });
        const contents = found.map((one) => passedContents(connection.server, one))
          .filter((one) => one !== null);
        return { contents: contents as ReadResourceResult["contents"] };
      }),
  );
  server.setRequestHandler(
    "prompts/get",
    ({ params }, ctx) =>
      orWanted(async (): Promise<GetPromptResult> => {
        const caller = asks(ctx);
        const { connection, name } = await promptOf(caller, params.name);
        const wish = { name, arguments: params.arguments ?? {} };
        const filled = await content.prompt(caller, connection, wish).catch(throwProtocolError);
        const messages = filled.messages.map(({ role, content: block }) => ({
          role: role === "assistant" ? "assistant" : "user",
          content: passedBlock(connection.server, block as Json),
        }));
        return { ...filled, messages: messages as GetPromptResult["messages"] };
      }),
  );
  server.setRequestHandler(
    "completion/complete",
    async ({ params: { ref, argument, context } }, ctx): Promise<CompleteResult> => {
      const caller = asks(ctx);
      const settled = context?.arguments;
      const rest = {
        argument,
        ...settled === undefined ? {} : { context: { arguments: settled } },
      };
      const ask = (connection: McpConnection, own: CompletionWish["ref"]) =>
        content.complete(caller, connection, { ref: own, ...rest }).catch(throwProtocolError);
      if (ref.type === "ref/prompt") {
        const { connection, name } = await promptOf(caller, ref.name);
        return { completion: { ...await ask(connection, { type: ref.type, name }) } };
      }
      const { connection, own } = await ownerOf(caller, ref.uri);
      return { completion: { ...await ask(connection, { type: ref.type, uri: own }) } };
    },
  );
}

function inOrder<T>(items: T[], keyOf: (item: T) => string): T[] {
  const byKey = new Map<string, T>();
  for (const item of items) if (!byKey.has(keyOf(item))) byKey.set(keyOf(item), item);
  return [...byKey].sort(([a], [b]) => a < b ? -1 : 1).map(([, item]) => item);
}

/** The result, or the one that says what its server wants first. */
async function orWanted<T>(answer: () => Promise<T>): Promise<T> {
  try {
    return await answer();
  } catch (error) {
    if (error instanceof InputRequired) return error.result as T;
    throw error;
  }
}

function throwProtocolError(error: unknown): never {
  throw toProtocolError(error);
}
