import type { JsonObject } from "../core/json.ts";
import { keyInEnvironment, KNOWN_PROVIDERS, OLLAMA_ORIGIN } from "./known_providers.ts";
import type { OllamaTags } from "./probe_ollama.ts";

/** Providers that need no file: entries of `providers` as a file would have them, and a sentence on each. */
export interface DetectedProviders {
  providers: JsonObject;
  notes: string[];
}

/**
 * Finds providers by the variables of their keys, then a local Ollama by what its probe said (null: none there).
 * When there is nothing at all, the built-in `demo` stands in. Keys themselves are looked up with every other one.
 */
export function detectProviders(
  env: (name: string) => string | undefined,
  ollama: OllamaTags | null,
): DetectedProviders {
  const providers: JsonObject = {};
  const notes: string[] = [];
  for (const row of KNOWN_PROVIDERS) {
    const { name } = row;
    const found = keyInEnvironment(row, env);
    if (found.kind === "foreign") {
      const { variable } = found;
      notes.push(`${variable} holds a key of a Loophub, so it does not enable provider ${name}`);
    }
    if (found.kind !== "key") continue;
    providers[name] = {};
    notes.push(`Provider ${name} is used because ${found.variable} is set`);
  }
  if (ollama !== null && ollama.models.length > 0) {
    const models = orderModels(ollama.models.map(({ name }) => name));
    providers.ollama = { models };
    notes.push(`Provider ollama is used because Ollama answers at ${OLLAMA_ORIGIN}`);
  } else if (ollama !== null) {
    notes.push(`Ollama answers at ${OLLAMA_ORIGIN} but has no models; pull one to use it`);
  }
  if (Object.keys(providers).length > 0) return { providers, notes };
  const variables = KNOWN_PROVIDERS.map(({ envVar }) => envVar).join(", ");
  notes.push(
    `Provider demo is used because no other was found; set one of ${variables}, or start Ollama`,
  );
  return { providers: { demo: {} }, notes };
}

/** What stands in for a `providers` section that is there and empty. */
export function demoInstead(): DetectedProviders {
  return {
    providers: { demo: {} },
    notes: ["Provider demo is used because the section providers is empty"],
  };
}

/** Embedding models cannot answer, so they come last: the first model is the default. */
function orderModels(names: string[]): string[] {
  const unique = [...new Set(names)];
  const embeds = (name: string) => /embed/i.test(name);
  return [...unique.filter((name) => !embeds(name)), ...unique.filter(embeds)];
}
