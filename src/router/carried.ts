import type { BodySource } from "../core/body_source.ts";
import type { HeaderPairs, UpstreamMethod } from "../providers/transport.ts";

/** A request that goes to a provider as it came, of which the hub knows the address and little else. */
export interface Carried {
  method: UpstreamMethod;
  /** Below the provider's base URL, query included. */
  path: string;
  /** Fields of this request, its content type among them. */
  headers: HeaderPairs;
  /** Whether the request has the attempt's `body`; false for one that has none. */
  hasBody: boolean;
  /** In place of the body: sent while it comes. */
  source?: BodySource | undefined;
  /** The body is a form: its fields stand in the bytes, some of which may be still to come. */
  form?: FormFields | undefined;
  /** The request does something that must not be done twice. */
  once: boolean;
  /** The answer is a file, whatever its type says: it is never looked into. */
  isFile: boolean;
}

/** Names of a form's fields. */
export interface FormFields {
  /** Calls `check` for each name that has come, then for each that comes. What it throws ends the request. */
  watch(check: (name: string) => void): void;
}
