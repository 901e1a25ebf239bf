import { HubError } from "../core/error.ts";

/** A request that is not over. */
export interface OpenRequest {
  /** Null before it is known who calls. */
  readonly keyId: string | null;
  giveUp(reason: HubError): void;
}

/** The requests of this replica that are not over, so that they end with their API keys. */
export class OpenRequests {
  readonly #open = new Set<OpenRequest>();

  add(request: OpenRequest): void {
    this.#open.add(request);
  }

  delete(request: OpenRequest): void {
    this.#open.delete(request);
  }

  /** Gives up the requests of these keys, which have ended. */
  endFor(keyIds: readonly string[]): void {
    const ended: ReadonlySet<string | null> = new Set(keyIds);
    for (const request of [...this.#open]) {
      if (!ended.has(request.keyId)) continue;
      request.giveUp(
        new HubError(
          "invalid_api_key",
          "The API key was revoked, or has expired, before the answer was whole",
        ),
      );
    }
  }
}
