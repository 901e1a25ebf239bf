import { HubError } from "../core/error.ts";
import { type CompiledRules, effectOf, formOfPath, normalForm } from "./field_rules.ts";

/** Code of refusals of fields, by which clients know them. */
export const FIELD_NOT_ALLOWED = "field_not_allowed";

/** Throws as a strict `readFields` does for a query of a request whose fields stand in its body. */
export function assertNoQuery(query: string, allowed: readonly string[]): void {
  for (const [name] of new URLSearchParams(query)) {
    if (allowed.includes(name)) continue;
    const shown = JSON.stringify(name.slice(0, 80));
    throw refuse(
      name,
      `${shown} in the query is refused as this API key has limits: put it in the body`,
    );
  }
}

/** Throws as a strict `readFields` does for the name of a form's field. */
export function assertFieldName(
  name: string,
  rules: CompiledRules,
  allowed: readonly string[],
): void {
  const listed = name.replace(/\[\]$/, "");
  if (name === "model" || (listed !== "model" && rules.roles.has(listed))) return;
  if (allowed.includes(name)) return;
  throw refuseName(name, rules);
}

/** The refusal of a field whose name is not known, or may be read as another. */
export function refuseName(path: string, { forms }: CompiledRules): HubError {
  const last = normalForm(path.slice(path.lastIndexOf(".") + 1));
  const known = forms.get(formOfPath(path)) ?? forms.get(normalForm(path));
  const effect = effectOf(last);
  const may = known !== undefined
    ? `may be read as ${known}: write ${known}, once`
    : effect === "model"
    ? "may make another model or provider answer: leave it out"
    : effect !== null
    ? "may make the answer larger unseen: leave it out"
    : "is not known to the hub, and may change the model or the size of the answer: leave it out, or have the operator list it in the provider's allowedFields";
  const shown = JSON.stringify(path.slice(0, 80));
  return refuse(path, `The field ${shown} is refused as this API key has limits. It ${may}`);
}

/** The refusal of a field whose name is longer than any that the hub knows; `start` is its beginning. */
export function refuseLongName(start: string, maxBytes: number): HubError {
  const shown = JSON.stringify(start);
  return refuse(
    start,
    `The field that begins with ${shown} is refused as this API key has limits: its name has more than ${maxBytes} bytes`,
  );
}

/** The refusal of a field of a request. */
export function refuse(param: string, message: string): HubError {
  return new HubError("invalid_request", message, {
    param: param.slice(0, 80),
    clientCode: FIELD_NOT_ALLOWED,
  });
}
