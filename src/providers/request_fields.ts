import type { ProviderKind } from "../config/known_providers.ts";
import { type CompiledRules, compileRules, type FieldRules } from "../wire/field_rules.ts";

/**
 * What the fields of requests do, by the part of the API and the kind of provider. Requests of API keys with limits may
 * have these fields and no others, so that neither the model nor the size of an answer changes unseen.
 */

/** Parts of the API whose requests the table describes. */
type FieldPart =
  | "chat"
  | "completions"
  | "embeddings"
  | "responses"
  | "messages"
  | "images"
  | "audio"
  | "videos"
  | "moderations"
  | "rerank"
  | "fine_tuning";

const names = (text: string): string[] => text.trim().split(/\s+/);

const NONE: FieldRules = {
  limits: [],
  mayLimit: [],
  adds: [],
  counts: [],
  lists: [],
  values: {},
  plain: [],
  texts: [],
};

/** Tiers and speeds whose tokens cost what the price table says, or less. */
const TIERS = {
  service_tier: ["auto", "default", "flex", "standard_only", "standard", "on_demand"],
};
const TIERED = { ...TIERS, speed: ["standard"], inference_geo: ["global"] };

/** Sampling, as servers of open models take it beside OpenAI's own fields. */
const SAMPLING = names(`
  temperature top_p top_k min_p top_a typical_p tfs_z epsilon_cutoff eta_cutoff
  frequency_penalty presence_penalty repetition_penalty repeat_penalty repeat_last_n length_penalty
  no_repeat_ngram_size mirostat mirostat_tau mirostat_eta mirostat_mode dynatemp_range
  dynatemp_exponent xtc_probability xtc_threshold dry_multiplier dry_base dry_allowed_length
  seed random_seed do_sample logprobs top_logprobs prompt_logprobs
`);
const SAMPLING_TEXTS = names(`
  stop stop_token_ids include_stop_str_in_output skip_special_tokens spaces_between_special_tokens
  logit_bias bad_words guided_json guided_regex guided_choice guided_grammar
  guided_decoding_backend structured_outputs grammar json_schema user echo suffix
  cache_prompt id_slot return_token_ids dry_sequence_breakers
`);

const CHAT: FieldRules = {
  ...NONE,
  limits: ["max_tokens"],
  mayLimit: [
    "max_completion_tokens",
    "min_tokens",
    "reasoning.max_tokens",
    "thinking.budget_tokens",
  ],
  adds: ["thinking_budget"],
  counts: [["n", "best_of"]],
  values: TIERS,
  plain: names(`
    stream stream_options store tools tool_choice functions function_call parallel_tool_calls
    reasoning thinking enable_thinking reasoning_effort include_reasoning verbosity modalities audio
    web_search_options usage
  `).concat(SAMPLING),
  texts: names(`
    messages response_format metadata prediction moderation safety_identifier prompt_cache_key
    prompt_cache_options prompt_cache_retention cache_control documents chat_template_kwargs
    add_generation_prompt continue_final_message add_special_tokens session_id request_id
  `).concat(SAMPLING_TEXTS),
};

/** Both names of the bound are obeyed: by the provider, or by the hub's translation. */
const BOTH: FieldRules = {
  ...CHAT,
  limits: ["max_tokens", "max_completion_tokens"],
  mayLimit: CHAT.mayLimit.filter((path) => path !== "max_completion_tokens"),
};

const withMore = (rules: FieldRules, more: Partial<Pick<FieldRules, "plain" | "texts">>) => ({
  ...rules,
  plain: [...rules.plain, ...more.plain ?? []],
  texts: [...rules.texts, ...more.texts ?? []],
});

/** Chat completions, a row a kind of provider. */
const CHAT_FIELDS: Readonly<Record<ProviderKind, FieldRules>> = {
  "openai": BOTH,
  "anthropic": BOTH,
  "google": {
    ...BOTH,
    mayLimit: [...BOTH.mayLimit, "extra_body.google.thinking_config.thinking_budget"],
    plain: [...BOTH.plain, "extra_body"],
    texts: [
      ...BOTH.texts,
      "extra_body.google.safety_settings",
      "extra_body.google.cached_content",
    ],
  },
  "openrouter": {
    ...withMore(BOTH, { texts: ["transforms", "trace"] }),
    // Others call models of their own (`openrouter:advisor`, `openrouter:fusion`), named or not.
    values: {
      ...TIERS,
      "tools.type": names(`
        function custom openrouter:web_search openrouter:web_fetch openrouter:datetime
        openrouter:apply_patch
      `),
    },
  },
  "groq": withMore(BOTH, {
    plain: names("reasoning_format disable_tool_validation citation_options"),
    texts: names("exclude_domains include_domains search_settings"),
  }),
  "mistral": withMore(CHAT, {
    plain: names("safe_prompt prompt_mode document_image_limit document_page_limit"),
  }),
  "deepseek": CHAT,
  "xai": withMore(BOTH, { texts: ["search_parameters"] }),
  "together": withMore(CHAT, { plain: ["context_length_exceeded_behavior"] }),
  "fireworks": withMore(BOTH, {
    plain: names(`
      context_length_exceeded_behavior prompt_truncate_len perf_metrics_in_response raw_output
      ignore_eos
    `),
  }),
  "cerebras": withMore(BOTH, { plain: names("clear_thinking disable_reasoning reasoning_format") }),
  "ollama": {
    ...BOTH,
    mayLimit: [...BOTH.mayLimit, "options.num_predict"],
    plain: [...BOTH.plain, ...names("options think keep_alive truncate shift")],
  },
  "openai-compatible": withMore(CHAT, {
    plain: names("keep_alive think reasoning_format separate_reasoning"),
  }),
  "demo": BOTH,
};

const COMPLETIONS: FieldRules = {
  ...NONE,
  limits: ["max_tokens"],
  mayLimit: ["min_tokens", "max_completion_tokens"],
  counts: [["n", "best_of"]],
  lists: ["prompt"],
  values: TIERS,
  plain: ["stream", "stream_options", ...SAMPLING],
  texts: ["metadata", ...SAMPLING_TEXTS],
};

/** Parts whose fields are the same at every provider that serves them. */
const PART_FIELDS: Readonly<Record<Exclude<FieldPart, "chat">, FieldRules>> = {
  completions: COMPLETIONS,
  embeddings: {
    ...NONE,
    plain: names(`
      dimensions encoding_format input_type task truncate truncation output_dtype output_dimension
      task_type title keep_alive normalize late_chunking
    `),
    texts: ["input", "user"],
  },
  responses: {
    ...NONE,
    limits: ["max_output_tokens"],
    values: TIERS,
    plain: names(`
      background conversation context_management image include max_tool_calls parallel_tool_calls
      previous_response_id reasoning store stream stream_options tool_choice tools truncation
      access_programs min_p top_k repetition_penalty temperature top_p top_logprobs seed
      frequency_penalty presence_penalty
    `),
    texts: names(`
      input instructions metadata client_metadata moderation prompt prompt_cache_key
      prompt_cache_options prompt_cache_retention safety_identifier text user stop logit_bias
    `),
  },
  messages: {
    ...NONE,
    limits: ["max_tokens"],
    mayLimit: ["thinking.budget_tokens"],
    values: TIERED,
    plain: names(`
      compaction container context_management diagnostics mcp_servers output_config stream
      temperature thinking thread tool_choice tools top_k top_p
    `),
    texts: names(`
      messages system cache_control metadata output_format stop_sequences user_profile_id
      workspace_id billing_policy
    `),
  },
  images: {
    ...NONE,
    counts: [["n"], ["frame_count"]],
    plain: names(`
      background complexity frame_duration_ms input_fidelity moderation output_compression
      output_format partial_images quality response_format size stream style svg
    `),
    texts: ["prompt", "image", "mask", "markup", "safety_identifier", "user"],
  },
  audio: {
    ...NONE,
    plain: names(`
      chunking_strategy include language languages response_format speed stream stream_format
      temperature timestamp_granularities voice
    `),
    texts: names(`
      file input instructions keywords known_speaker_names known_speaker_references prompt
    `),
  },
  videos: { ...NONE, plain: ["seconds", "size"], texts: ["prompt", "input_reference"] },
  moderations: { ...NONE, texts: ["input"] },
  rerank: {
    ...NONE,
    plain: names(`
      top_n top_k return_documents max_chunks_per_doc max_tokens_per_doc rank_fields truncation
    `),
    texts: ["query", "documents", "instruction", "input", "texts"],
  },
  fine_tuning: {
    ...NONE,
    plain: ["hyperparameters", "method", "seed"],
    texts: ["training_file", "validation_file", "integrations", "metadata", "suffix"],
  },
};

const compiled = new Map<string, CompiledRules>();

/** The rules of a part at a kind of provider; null for a part whose requests name no model. */
export function requestFieldsOf(part: string, kind: ProviderKind): CompiledRules | null {
  const id = part === "chat" ? `chat ${kind}` : part;
  const before = compiled.get(id);
  if (before !== undefined) return before;
  const rules = part === "chat" ? CHAT_FIELDS[kind] : PART_FIELDS[part as keyof typeof PART_FIELDS];
  if (rules === undefined) return null;
  const made = compileRules(rules);
  compiled.set(id, made);
  return made;
}
