import type { IdSource } from "../../core/id.ts";
import type { OpenAnswer } from "../../router/open_answer.ts";
import type { ResolveModel } from "../../router/resolve.ts";
import type { BackgroundResponses } from "../../run/background_responses.ts";
import type { IdempotentAnswers } from "../../run/idempotent_answers.ts";
import type { KeptResponses } from "../../run/kept_responses.ts";
import type { AnswerCache } from "../../run/response_cache.ts";
import type { Database } from "../../store/database.ts";

/** What `/v1/responses` needs. */
export interface ResponsesOptions {
  db: Database;
  resolve: ResolveModel;
  openAnswer: OpenAnswer;
  kept: KeptResponses;
  background: BackgroundResponses;
  answers: Pick<IdempotentAnswers, "open">;
  cache: AnswerCache;
  ids: IdSource;
  /** Silence before headers or bytes after which a stream gets a comment, in milliseconds; 0 = never. */
  keepaliveMs: number;
}
