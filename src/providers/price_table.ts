import { type Static, Type } from "@sinclair/typebox";
import { Pricing } from "../config/provider_schema.ts";
import { findKnownProvider } from "../config/known_providers.ts";
import table from "./prices.json" with { type: "json" };

/** The vendored list prices: when they were read, where, and by kind of provider and model. */
export const PriceTable = Type.Object({
  asOf: Type.String({ pattern: "^\\d{4}-\\d{2}-\\d{2}$" }),
  sources: Type.Record(Type.String(), Type.String({ pattern: "^https://" })),
  prices: Type.Record(Type.String(), Type.Record(Type.String(), Pricing)),
}, { additionalProperties: false });
export type PriceTable = Static<typeof PriceTable>;

/** The table as it is shipped; a test holds it to its schema. */
export const PRICE_TABLE: PriceTable = table;

/** The list price of a model at the provider's own address; undefined when the table has none. */
export function listPrice(
  { kind, baseUrl }: { kind: string; baseUrl?: string | undefined },
  model: string,
): Pricing | undefined {
  const own = findKnownProvider(kind)?.baseUrl;
  // Whoever stands at another address has prices of its own.
  if (own === undefined || baseUrl !== own) return undefined;
  const models = PRICE_TABLE.prices[kind];
  return models !== undefined && Object.hasOwn(models, model) ? models[model] : undefined;
}
