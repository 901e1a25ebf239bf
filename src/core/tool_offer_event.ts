import { isJsonObject, type Json } from "./json.ts";

const OFFER = "tools";

/** The event that says which of its tools a run begins to show to its model, by full name. */
export function toolOfferEvent(names: readonly string[]) {
  return { type: "data" as const, name: OFFER, id: "tools", data: { offered: [...names] } };
}

/** True for the `data` of such an event. */
export function isToolOffer({ name }: { name?: string }): boolean {
  return name === OFFER;
}

/** The names that such an event or part tells; null for any other. */
export function readOffer(
  part: { type: string; name?: string; data?: Json },
): string[] | null {
  if (part.type !== "data" || !isToolOffer(part) || !isJsonObject(part.data)) return null;
  const { offered } = part.data;
  return Array.isArray(offered) ? offered.filter((name) => typeof name === "string") : null;
}
