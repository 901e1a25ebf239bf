import type { ProviderKind } from "../config/known_providers.ts";
import type { ModelOverride, Pricing, Timeouts } from "../config/provider_schema.ts";
import { costMicros } from "../core/cost.ts";
import type { ModelEvent } from "../core/model.ts";
import type { Usage } from "../core/usage.ts";
import type { WireName } from "../wire/wire_dialect.ts";
import type { Quirks } from "./quirks.ts";
import type { HeaderPairs, SendUpstream } from "./transport.ts";

/** Stands where a request names no model: no column of a usage row may be empty. */
export const NO_MODEL = "-";

/** Where requests of one dialect go. */
export interface Endpoint {
  url: string;
  send: SendUpstream;
}

/** Where one model is served: a provider, its address and credential, and the name that it gives the model. */
export interface Target {
  /** `provider/model`. */
  id: string;
  provider: string;
  /** The upstream's own model name. */
  model: string;
  /** Every target takes chat completions; other dialects are here when the provider speaks them itself. */
  endpoints: { readonly chat: Endpoint } & Readonly<Partial<Record<WireName, Endpoint>>>;
  /** Credential and attribution; the same array for every request of a provider. */
  fixedHeaders: HeaderPairs;
  quirks: Quirks;
  timeouts: Timeouts;
  /** Tries after the first one on this target. */
  maxRetries: number;
  override: ModelOverride;
  /** Kind of its provider; left out where nothing depends on it. */
  kind?: ProviderKind;
  /** This target with each key of its provider's pool, in order; left out where there is one key or none. */
  lanes?: readonly Target[];
  /** The first lane is tried first, and each behind it only when it was refused: its key follows on theirs. */
  inOrder?: true;
  /** Which key of the pool this lane has. */
  key?: PooledKey;
}

/** One of several keys of a provider. */
export interface PooledKey {
  /** Its place in the configuration, from 1. */
  number: number;
  /** Names the key. */
  id: string;
  /** Names the key at this model. */
  atModel: string;
}

/** Cost in millionths of a US dollar, rounded up; null when the price is unknown. */
export function costOf(usage: Usage, pricing: Pricing | undefined): number | null {
  return pricing === undefined ? null : costMicros(usage, pricing);
}

/** The events of an answer, their usage with what it costs at the target's price. */
export function withCosts(
  events: readonly ModelEvent[],
  { override }: Pick<Target, "override">,
): ModelEvent[] {
  return events.map((event) => {
    if (event.type !== "usage") return event;
    const costMicros = costOf(event.usage, override.pricing);
    return costMicros === null ? event : { ...event, costMicros };
  });
}
