import type { JSONRPCMessage } from "@modelcontextprotocol/client";
import { HubError } from "../../core/error.ts";
import type { Json } from "../../core/json.ts";
import { isInDoubt, OutcomeUnknown } from "../../core/outcome_unknown.ts";
import { scrubJson, scrubText } from "../../telemetry/scrub.ts";

/** Tokens are refreshed: the last ones are known, as a server may still say a former one. */
const MAX_SECRETS = 200;

/** The credentials that one connection sends to its server, taken out of whatever comes back from there. */
export class ConnectionSecrets {
  readonly #secrets = new Set<string>();

  add(secrets: Iterable<string>): void {
    for (const secret of secrets) {
      this.#secrets.delete(secret);
      this.#secrets.add(secret);
    }
    for (const oldest of this.#secrets) {
      if (this.#secrets.size <= MAX_SECRETS) break;
      this.#secrets.delete(oldest);
    }
  }

  /** A text without them. */
  scrub(text: string): string {
    return this.#secrets.size === 0 ? text : scrubText(text, [...this.#secrets]);
  }

  /** A message without them; it is changed in place. */
  scrubMessage(message: JSONRPCMessage): JSONRPCMessage {
    if (this.#secrets.size === 0) return message;
    return scrubJson(message as unknown as Json, [...this.#secrets]) as unknown as JSONRPCMessage;
  }

  /** A failure without them: the same one where it says none. */
  scrubError(error: unknown): unknown {
    if (!(error instanceof Error)) return error;
    const text = this.scrub(error.message);
    if (text === error.message) return error;
    if (isInDoubt(error)) return new OutcomeUnknown(text);
    return error instanceof HubError ? new HubError(error.code, text) : new Error(text);
  }
}
