import { HubError } from "../core/error.ts";
import { hideAddresses } from "../core/hide_addresses.ts";
import { OutcomeUnknown } from "../core/outcome_unknown.ts";
import { NotConfigured } from "./resolve_variables.ts";

/** The HTTP status that a server refused with, if one did; read without the package, which may not be loaded. */
export function statusOf(error: unknown): number | null {
  for (let at: unknown = error, depth = 0; at instanceof Error && depth < 8; depth++) {
    if (at.name === "UnauthorizedError") return 401;
    if ("status" in at && typeof at.status === "number") return at.status;
    // The package's SseError, which has no name of its own.
    if (at.message.startsWith("SSE error") && "code" in at && typeof at.code === "number") {
      return at.code;
    }
    at = at.cause;
  }
  return null;
}

/** What went wrong, in a sentence of bounded length, for operators: it may name the server's address. */
export function describeFailure(error: unknown): string {
  for (let at: unknown = error, depth = 0; at instanceof Error && depth < 8; depth++) {
    if (at instanceof HubError) return at.message.slice(0, 400);
    at = at.cause;
  }
  const status = statusOf(error);
  const said = error instanceof Error ? error.message || error.name : String(error);
  const text = said.replace(/\s+/g, " ").trim().slice(0, 400);
  return status === null || text.includes(String(status))
    ? text
    : `it answered with status ${status}: ${text}`;
}

/** The same for models and clients. */
export function describeToClient(error: unknown): string {
  return withoutAddress(error, describeFailure(error));
}

/**
 * The text of an error for models and clients: failures of the connection, which the runtime tells with the server's
 * address, come without it; what the server itself answers stays as it is.
 */
export function withoutAddress(error: unknown, text: string): string {
  return isAnswer(error) ? text : hideAddresses(text);
}

/** True for an error of JSON-RPC that the server answered with. */
function isAnswer(error: unknown): boolean {
  return error instanceof Error && "code" in error && typeof error.code === "number" &&
    error.code < 0;
}

/** True when only a person can help, who authorizes the hub. */
export function isNeedsAuth(error: unknown): boolean {
  return error instanceof HubError && error.code === "needs_authorization";
}

/** True for what no waiting mends. */
export function isFinal(error: unknown): boolean {
  if (error instanceof NotConfigured || error instanceof TypeError) return true;
  const status = statusOf(error);
  return status !== null && status >= 400 && status < 500 && status !== 408 && status !== 429;
}

/** A server could not be reached. */
export class ConnectFailure extends Error {}

/** Of a server that was not reached. */
export function unavailable(name: string, { reason, cause }: Told): Error {
  const shown = hideAddresses(reason);
  return new ConnectFailure(`The MCP server ${name} is not available: ${shown}`, { cause });
}

/** Of a call whose outcome nobody knows. */
export function lostInCall(name: string, { reason, cause }: Told): Error {
  return new OutcomeUnknown(
    `The connection to the MCP server ${name} ended during the call (${
      hideAddresses(reason)
    }); do not assume that the tool did its work`,
    { cause },
  );
}

interface Told {
  reason: string;
  cause: unknown;
}
