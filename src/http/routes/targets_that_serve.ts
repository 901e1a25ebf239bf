import { HubError } from "../../core/error.ts";
import type { Route } from "../../router/route.ts";
import type { WireName } from "../../wire/wire_dialect.ts";

/** The way to the targets that take requests of a dialect. Throws `invalid_request` when there are none: the next request would fare no better. */
export function targetsThatServe(
  wire: Exclude<WireName, "chat" | "pass">,
  targets: Route,
): Route {
  const able = targets.filter((target) => target.endpoints[wire] !== undefined);
  // As it stands it may have an order of its own.
  if (able.length === targets.length) return targets;
  if (able.length > 0) return able;
  const names = [...new Set(targets.map(({ provider }) => provider))].join(", ");
  throw new HubError(
    "invalid_request",
    `The model's provider (${names}) has no ${wire}; take a model of another one`,
    { param: "model" },
  );
}
