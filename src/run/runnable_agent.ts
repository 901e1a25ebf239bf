import type { WhenBusy } from "../core/when_busy.ts";
import type { Clock } from "../core/clock.ts";
import type { ContextFact } from "../core/context_events.ts";
import type { HandedCredentials } from "../core/handed_credentials.ts";
import type { IdSource } from "../core/id.ts";
import type { HoldKey } from "../core/key_end.ts";
import type { Log } from "../core/log.ts";
import type { CallModel } from "../core/model.ts";
import type { ModelWindow } from "../core/tokenizer.ts";
import type { Principal, Tool } from "../core/tool.ts";
import type { Usage } from "../core/usage.ts";
import type {
  AgentSettings,
  ExecuteTool,
  ToolInstructions,
  ToolOffer,
} from "../inference/agent_run.ts";
import type { KeyPolicy } from "../policy/key_policy.ts";
import type { Database } from "../store/database.ts";
import type { Span, Tracing } from "../telemetry/tracing.ts";
import type { HandedRuns } from "./handed_runs.ts";
import type { QuestionDesk } from "./question_desk.ts";
import type { LiveRuns } from "./live_runs.ts";

/** An agent that can be run: its settings, its tools and how it calls its models. */
export interface RunnableAgent {
  settings: AgentSettings;
  /** Public name of its first model. */
  model: string;
  tools: readonly Tool[];
  /** Whether it is configured to have none, not even ones that are still to come. */
  hasNoTools?: boolean;
  /** Whether its calls with effects run as ever after it has read what others wrote. */
  ignoresTaint?: boolean;
  /** What is done with a message to a chat whose run goes on; what the hub does unless told when left out. */
  whenBusy?: WhenBusy;
  /** How they are shown, where there are too many to show all. */
  offer?: ToolOffer;
  /** How the sources of some tools want them to be used. */
  instructions?: readonly ToolInstructions[];
  /** The same agent for a caller, once its tools are known, or were waited for long enough. */
  prepare?(principal: Principal, handed: HandedCredentials | null): Promise<RunnableAgent>;
  /** Ends what there is for this run alone, once it is over here. Never rejects. */
  release?(): Promise<void>;
  /** A model for one run; `requestId` goes into the usage rows. */
  callModel(facts: RunFactsForCalls): CallModel;
  /** What its model can read. */
  window?(): ModelWindow;
  /** The most that such a call may have cost, in millionths of a US dollar; null when nobody can tell. */
  costOf?(usage: Usage): number | null;
}

/** Whose run, for the usage rows of its model calls. */
export interface RunFactsForCalls {
  principal: Principal;
  requestId: string;
  sessionId: string;
  runId: string;
  /** Of the owner that makes them: part of the ids of their usage rows. */
  epoch: number;
  /** How a trace tells the run. */
  span?: Span | null;
}

/** What starting runs needs. */
export interface StartOptions {
  db: Database;
  live: LiveRuns;
  executeTool: ExecuteTool;
  clock: Clock;
  ids: IdSource;
  random: () => number;
  log: Log;
  /** Names this replica in the lease. */
  owner: string;
  leaseMs: number;
  /** How long a person is waited for who is asked whether a call may run. */
  approvalTimeoutMs: number;
  /** Whom tools ask in the middle of a call; without it what they ask is declined. */
  questions?: QuestionDesk;
  /** Told how much room requests of runs leave. */
  observeContext?(fact: ContextFact): void;
  /** Begins traces of runs that nobody's request begins. */
  tracing?: Tracing | null;
  /** Credentials that runs were handed. */
  handed?: HandedRuns;
  /** What a key may do; without it any key runs any agent. */
  policyOf?(keyId: string): KeyPolicy;
  /** Stops runs whose key ends; without it they go on. */
  holdKey?: HoldKey;
}
