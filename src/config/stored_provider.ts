import { Type } from "@sinclair/typebox";
import type { JsonObject } from "../core/json.ts";
import { checkSchema } from "./check_schema.ts";
import { completeProviders, type LoadedProvider } from "./complete_providers.ts";
import { type ConfigProblem, createProblemList, describeProblem } from "./problem.ts";
import { Config } from "./schema.ts";
import { toSchemaNode } from "./schema_node.ts";

/** A provider that did not come from a file: ready to be called, or what is wrong with it. */
export type ReadProvider =
  | { ok: true; provider: LoadedProvider }
  | { ok: false; problems: readonly ConfigProblem[]; message: string };

const PROVIDERS = toSchemaNode(Type.Pick(Config, ["providers"]));
const NO_ORIGINS = { lineOf: () => undefined, variableOf: () => undefined };

/**
 * Checks and completes a provider by all the rules of the configuration, but that the environment gives it nothing:
 * `${NAME}` in its texts stands for itself, and no key is found for it. No text of a problem holds a secret.
 */
export function readStoredProvider(name: string, settings: JsonObject): ReadProvider {
  const problems = createProblemList(NO_ORIGINS);
  if (Object.hasOwn(settings, "apiKeys")) {
    problems.add(["providers", name, "apiKeys"], {
      got: "a list of keys",
      wanted: "apiKey; several keys are for the configuration",
    });
  }
  const value = { providers: { [name]: settings } };
  const checked = checkSchema(PROVIDERS, value, { problems, references: new Map() });
  const { providers = {} } = (checked ?? {}) as Partial<Pick<Config, "providers">>;
  const completed = completeProviders(providers, { env: () => undefined, problems });
  const provider = completed.providers[name];
  if (provider !== undefined && problems.all.length === 0) return { ok: true, provider };
  const message = problems.all.map(describeProblem).join("; ");
  return { ok: false, problems: problems.all, message };
}
