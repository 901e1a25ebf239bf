import type { JsonObject } from "../core/json.ts";
import type { McpConnection } from "../mcp/connection.ts";
import type { Completion, CompletionWish } from "../mcp/server_content.ts";
import type { Admission, Visitor } from "./admission.ts";
import {
  CallersContent,
  type CallersContentOptions,
  type ContentCaller,
} from "./callers_content.ts";

/** The same for callers that have no place yet: asking a server counts among the requests of their key under way. */
export class AdmittedContent extends CallersContent {
  readonly #admission: Admission;

  constructor(admission: Admission, options: CallersContentOptions) {
    super(options);
    this.#admission = admission;
  }

  override read(
    caller: ContentCaller,
    connection: McpConnection,
    uri: string,
  ): Promise<JsonObject[]> {
    return this.#admitted(caller, () => super.read(caller, connection, uri));
  }

  override prompt(
    caller: ContentCaller,
    connection: McpConnection,
    wish: { name: string; arguments: Record<string, string> },
  ): Promise<{ description?: string; messages: JsonObject[] }> {
    return this.#admitted(caller, () => super.prompt(caller, connection, wish));
  }

  override complete(
    caller: ContentCaller,
    connection: McpConnection,
    wish: CompletionWish,
  ): Promise<Completion> {
    return this.#admitted(caller, () => super.complete(caller, connection, wish));
  }

  async #admitted<T>(
    { keyId, signal }: ContentCaller,
    work: () => Promise<T>,
  ): Promise<T> {
    const visit: Visitor = { principal: { keyId }, signal, keyGate: null, hubGate: null };
    try {
      await this.#admission.enter(visit);
      return await work();
    } finally {
      this.#admission.leave(visit);
    }
  }
}
