import { HubError } from "../../core/error.ts";
import type { JsonObject } from "../../core/json.ts";
import type { Access } from "../../core/ownership.ts";
import { type KeptResponses, previousNotFound } from "../../run/kept_responses.ts";
import type { Database } from "../../store/database.ts";
import { foreignItems, type StoredResponse } from "../../store/responses.ts";
import { referencedItem } from "../../wire/openai_responses/decode_input.ts";
import { outputOf, responseOfItem } from "../../wire/openai_responses/kept_items.ts";

/** What looking for earlier responses needs. */
export interface StateOptions {
  kept: KeptResponses;
  db: Database;
}

/** Who keeps a response: a target, and which key of its provider's pool asked for it. */
export interface KeptBy {
  target: string;
  lane: number | null;
}

/** What a request goes on from. */
export interface EarlierState {
  /** Null when the hub keeps it, or when there is nothing. */
  keptBy: KeptBy | null;
  /** What was said before, when the hub keeps it. */
  history: JsonObject[];
}

/** Finds what a request goes on from. Throws `previous_response_not_found`. */
export async function findEarlier(
  previousId: string | null,
  access: Access,
  { kept }: StateOptions,
): Promise<EarlierState> {
  if (previousId === null) return { keptBy: null, history: [] };
  const chain = await kept.chain({ ...access, responseId: previousId });
  const last = chain.at(-1);
  const first = chain[0];
  if (last === undefined || first === undefined) throw previousNotFound(previousId);
  const { target, lane } = last;
  if (target !== null) return { keptBy: { target, lane }, history: [] };
  if (first.previousId !== null) {
    throw previousNotFound(previousId, "goes on from one that was deleted or has expired");
  }
  for (const { state, responseId } of chain) {
    if (state === "completed" || state === "incomplete") continue;
    throw new HubError(
      "invalid_request",
      `Previous response with id '${responseId}' is ${
        state.replace("_", " ")
      }, and has nothing to go on from.`,
      { param: "previous_response_id" },
    );
  }
  const history = chain.flatMap(({ input, response }) => [...input, ...outputOf(response)]);
  return { keptBy: null, history };
}

/** The items with those in place of references that the hub keeps; what is left refers to items of a provider. */
export async function resolveReferences(
  items: readonly JsonObject[],
  access: Access,
  { kept, db }: StateOptions,
): Promise<{ items: JsonObject[]; elsewhere: boolean; changed: boolean }> {
  if (items.every((item) => referencedItem(item) === null)) {
    return { items: [...items], elsewhere: false, changed: false };
  }
  const known = new Map<string, StoredResponse | null>();
  const elsewhere: string[] = [];
  const resolved: JsonObject[] = [];
  for (const [index, item] of items.entries()) {
    const id = referencedItem(item);
    if (id === null) {
      resolved.push(item);
      continue;
    }
    const responseId = responseOfItem(id);
    if (responseId === null) {
      elsewhere.push(id);
      resolved.push(item);
      continue;
    }
    const before = known.get(responseId);
    const response = before === undefined ? await kept.find({ ...access, responseId }) : before;
    known.set(responseId, response);
    const all = response === null ? [] : [...response.input, ...outputOf(response.response)];
    const found = all.find((candidate) => candidate["id"] === id);
    if (found === undefined) throw itemNotFound(id, `input[${index}]`);
    resolved.push(found);
  }
  const changed = known.size > 0;
  if (elsewhere.length === 0) return { items: resolved, elsewhere: false, changed };
  const [foreign] = await foreignItems(db, { ...access, items: elsewhere });
  if (foreign !== undefined) throw itemNotFound(foreign, "input");
  return { items: resolved, elsewhere: true, changed };
}

function itemNotFound(id: string, param: string): HubError {
  return new HubError("invalid_request", `Item with id '${id.slice(0, 100)}' not found.`, {
    param,
  });
}
