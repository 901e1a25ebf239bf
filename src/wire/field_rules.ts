import type { Json } from "../core/json.ts";

/**
 * What the fields of a request do at one provider. A nested member is named by its path, lists left out:
 * `reasoning.max_tokens`.
 */
export interface FieldRules {
  /** Bounds of an answer's tokens that the provider obeys. */
  limits: readonly string[];
  /** Bounds that it may ignore, and numbers of tokens that an answer has at least: they count where they are larger. */
  mayLimit: readonly string[];
  /** Tokens that come on top of the bound. */
  adds: readonly string[];
  /** Numbers of answers: the largest of a group counts, groups multiply. */
  counts: readonly (readonly string[])[];
  /** Lists of which every element gets an answer; a list of numbers is one element. */
  lists: readonly string[];
  /** Fields that may have these values only: with another one the request costs more than the model's price. */
  values: Readonly<Record<string, readonly Json[]>>;
  /** Fields that change neither the model nor the size, but whose members might. */
  plain: readonly string[];
  /** The same for fields that hold texts, schemas or notes: their members mean nothing. */
  texts: readonly string[];
}

/** What one field does. */
export type FieldRole =
  | { does: "limit" | "mayLimit" | "add" | "list" | "plain" | "text" }
  | { does: "count"; group: number }
  | { does: "value"; values: readonly Json[] };

/** Rules by the path of the field. */
export interface CompiledRules {
  roles: ReadonlyMap<string, FieldRole>;
  groups: number;
  /** By its normal form, a name that has a role. */
  forms: ReadonlyMap<string, string>;
  /** Normal forms of paths below which others have roles. */
  holders: ReadonlySet<string>;
}

/** Prepares rules for `readFields`. */
export function compileRules(rules: FieldRules): CompiledRules {
  const roles = new Map<string, FieldRole>([["model", { does: "text" }]]);
  const add = (paths: readonly string[], role: FieldRole) => {
    for (const path of paths) roles.set(path, role);
  };
  add(rules.texts, { does: "text" });
  add(rules.plain, { does: "plain" });
  add(rules.lists, { does: "list" });
  add(rules.limits, { does: "limit" });
  add(rules.mayLimit, { does: "mayLimit" });
  add(rules.adds, { does: "add" });
  rules.counts.forEach((group, index) => add(group, { does: "count", group: index }));
  for (const [path, values] of Object.entries(rules.values)) {
    roles.set(path, { does: "value", values });
  }
  const forms = new Map([...roles.keys()].map((path) => [formOfPath(path), path]));
  const holders = new Set([...forms.keys()].flatMap(pathsAbove));
  return { roles, groups: rules.counts.length, forms, holders };
}

/**
 * The name as the most lenient reader might take it: without case, separators and compatibility characters, and only up to
 * a NUL. Two names of one form may be one field to a provider.
 */
export function normalForm(name: string): string {
  const [text = ""] = name.split("\0", 1);
  return text.normalize("NFKC").toLowerCase().replaceAll(/[^a-z0-9]/g, "");
}

/** The same for each name of a path. */
export function formOfPath(path: string): string {
  return path.split(".").map(normalForm).join(".");
}

function pathsAbove(path: string): string[] {
  const names = path.split(".");
  return names.slice(1).map((_, index) => names.slice(0, index + 1).join("."));
}

const formsOf = (names: string): ReadonlySet<string> =>
  new Set(names.trim().split(/\s+/).map(normalForm));

/** Forms of names by which servers and gateways let a request choose another model, or who serves it. */
const MODEL_FORMS = formsOf(`
  model models model_id model_name base_model model_group engine engine_id engines
  deployment deployment_id deployment_name adapter adapter_id adapters lora lora_request lora_name
  fallback fallbacks fallback_models context_window_fallbacks default_fallbacks
  route router routing provider providers preset presets plugins
  analysis_models judge_model
  answering_model reasoning_model planner_model draft_model speculative_model summary_model safety_model
  extra_body extra_query extra_headers base_url api_base custom_llm_provider
`);

/** Forms of names by which they bound or lengthen an answer. */
const SIZE_FORMS = formsOf(`
  max_tokens max_completion_tokens max_output_tokens max_new_tokens max_gen_len max_gen_toks
  max_length max_len max_tokens_to_sample max_tokens_to_generate max_generated_tokens max_answer_tokens
  n_predict num_predict token_limit output_tokens tokens_to_generate maximum_tokens
  min_tokens min_completion_tokens min_output_tokens min_new_tokens min_length min_len ignore_eos
  budget_tokens thinking_budget reasoning_budget thinking_token_budget thinking_tokens reasoning_tokens
  generation_config parameters.max_new_tokens sampling_params
`);

/** Forms of names by which they make several answers. */
const COUNT_FORMS = formsOf(`
  n best_of num_return_sequences num_completions num_generations num_candidates candidate_count
  num_samples n_samples num_choices num_outputs num_images num_beams beam_width use_beam_search
  batch_size sample_count
`);

/** Members that hold schemas, examples or texts wherever they stand. */
const TEXT_MEMBERS: ReadonlySet<string> = new Set([
  "input_schema",
  "output_schema",
  "schema",
  "json_schema",
  "input_examples",
  "description",
  "metadata",
]);

/** Members of a schema that hold further schemas and values. A gateway's own tools have settings where it stands. */
const SCHEMA_MEMBERS: ReadonlySet<string> = new Set([
  ...["properties", "patternProperties", "additionalProperties", "items", "prefixItems", "not"],
  ...["$defs", "definitions", "dependentSchemas", "allOf", "anyOf", "oneOf", "if", "then", "else"],
  ...["enum", "const", "default", "examples"],
]);

/** Whether a member, of the one that is named `above`, means nothing to a provider, whatever is in it. */
export function isText(name: string, above: string): boolean {
  return TEXT_MEMBERS.has(name) || (above === "parameters" && SCHEMA_MEMBERS.has(name));
}

/** What a server may do with a field of some name wherever it stands; null for nothing that matters. */
export type NameEffect = "model" | "size" | "count" | null;

/** What the normal form of a name says. */
export function effectOf(form: string): NameEffect {
  if (COUNT_FORMS.has(form)) return "count";
  if (SIZE_FORMS.has(form)) return "size";
  return MODEL_FORMS.has(form) ? "model" : null;
}
