import { responseOf } from "./approval.ts";
import type { HubEvent } from "./event.ts";
import { type ApprovalFacts, emptyFacts, factsToMetadata, type RunFacts } from "./run_facts.ts";
import type { ToolPart, UIMessage, UIPart } from "./ui_message.ts";
import { usageAfter } from "./used_beside.ts";

/** A row of the message that is not as it was. `part` null: the place is void, its row holds nothing any more. */
export interface PartChange {
  index: number;
  part: UIPart | null;
}

/** What a run has begun and not ended: what must be closed before it may finish. */
export interface OpenParts {
  /** The step between `step-start` and `step-finish`, or null. */
  step: number | null;
  /** Ids of text parts, in order of beginning. */
  text: string[];
  reasoning: string[];
  /** Calls whose arguments still arrive. */
  streaming: ToolPart[];
  /** Calls whose input is there and whose final output is not. */
  calls: ToolPart[];
}

/** The one accumulator from events to message. Nothing it gives back changes later. */
export interface Fold {
  /** Takes the next event of the run. Transient events change nothing; the order is `checkLog`'s business. */
  apply(event: HubEvent): void;
  message(): UIMessage;
  facts(): RunFacts;
  open(): OpenParts;
  /** The call's part as it is now. */
  toolPart(toolCallId: string): ToolPart | undefined;
  /**
   * What changed since the last call, by index, in order: for rows keyed by (message, index). A place that a
   * `step-reset` made void comes as null, and may be used again by a later change; so the newest change of an index
   * alone decides its row, and changes may be joined by index.
   */
  takeChangedParts(): PartChange[];
}

type PartOf<T extends UIPart["type"]> = Extract<UIPart, { type: T }>;

/** Makes an accumulator for one assistant message. */
export function createFold(): Fold {
  return new EventFold();
}

class EventFold implements Fold {
  #messageId = "";
  readonly #facts = emptyFacts();
  readonly #parts: UIPart[] = [];
  #openStep: number | null = null;
  #stepIndex = 0;
  readonly #openTexts = new Map<string, number>();
  readonly #openReasonings = new Map<string, number>();
  readonly #tools = new Map<string, number>();
  #changed = new Set<number>();
  #takenLength = 0;

  apply(event: HubEvent): void {
    this.#facts.usage = usageAfter(this.#facts.usage, event);
    switch (event.type) {
      case "start":
        this.#messageId = event.messageId;
        this.#facts.runId = event.runId ?? "";
        this.#facts.sessionId = event.sessionId ?? "";
        this.#facts.model = event.model;
        return;
      case "step-start":
        this.#openStep = event.step;
        this.#stepIndex = this.#add({ type: "step-start", step: event.step });
        this.#facts.steps.push({ step: event.step, state: "started" });
        return;
      case "step-finish":
        return this.#finishStep(event);
      case "step-reset":
        return this.#truncate(this.#stepIndex + 1);
      case "text-start": {
        const { id } = event;
        this.#openTexts.set(id, this.#add({ type: "text", id, text: "", state: "streaming" }));
        return;
      }
      case "reasoning-start": {
        const { id } = event;
        const part: UIPart = { type: "reasoning", id, text: "", state: "streaming" };
        this.#openReasonings.set(id, this.#add(part));
        return;
      }
      case "text-delta":
      case "reasoning-delta": {
        const part = event.type === "text-delta"
          ? this.#change("text", this.#openTexts.get(event.id))
          : this.#change("reasoning", this.#openReasonings.get(event.id));
        if (part !== undefined) part.text += event.delta;
        return;
      }
      case "text-end": {
        const part = this.#change("text", this.#openTexts.get(event.id));
        if (part !== undefined) part.state = "done";
        this.#openTexts.delete(event.id);
        return;
      }
      case "reasoning-end": {
        const part = this.#change("reasoning", this.#openReasonings.get(event.id));
        if (part !== undefined) part.state = "done";
        if (part !== undefined && event.origin !== undefined) part.origin = event.origin;
        this.#openReasonings.delete(event.id);
        return;
      }
      case "tool-input-start":
      case "tool-input-delta":
      case "tool-input-available":
      case "tool-input-error":
      case "tool-output-available":
      case "tool-output-error":
      case "tool-output-denied":
        return this.#applyToTool(event);
      case "tool-approval-request": {
        const { type: _, ...approval } = event;
        this.#facts.approvals.push(approval);
        const { toolCallId, toolName: __, input: ___, ...shown } = approval;
        const part = this.#change("tool", this.#tools.get(toolCallId));
        if (part !== undefined) part.approval = shown;
        return;
      }
      case "tool-approval-response":
        return this.#answer(event);
      case "source-url":
      case "file":
        this.#add({ ...event });
        return;
      case "data":
        return this.#applyData(event);
      case "error": {
        const { errorText, code, retryable } = event;
        this.#facts.error = { errorText, code, retryable };
        return;
      }
      case "abort":
        this.#facts.abortReason = event.reason;
        return;
      case "finish":
        this.#facts.finishReason = event.finishReason;
        this.#facts.costMicros = event.costMicros;
        this.#facts.estimated = event.estimated === true;
        this.#facts.answeredBy = event.metadata;
        return;
    }
  }

  message(): UIMessage {
    return {
      id: this.#messageId,
      role: "assistant",
      parts: this.#parts.map((part) => ({ ...part })),
      metadata: factsToMetadata(this.#facts),
    };
  }

  facts(): RunFacts {
    return structuredClone(this.#facts);
  }

  open(): OpenParts {
    const tools = [...this.#tools.values()]
      .map((index) => this.#parts[index])
      .filter((part) => part?.type === "tool")
      .map((part) => ({ ...part }));
    return {
      step: this.#openStep,
      text: [...this.#openTexts.keys()],
      reasoning: [...this.#openReasonings.keys()],
      streaming: tools.filter((part) => part.state === "streaming"),
      calls: tools.filter((part) => part.state === "call"),
    };
  }

  toolPart(toolCallId: string): ToolPart | undefined {
    const part = this.#parts[this.#tools.get(toolCallId) ?? -1];
    return part?.type === "tool" ? { ...part } : undefined;
  }

  takeChangedParts(): PartChange[] {
    const indexes = [...this.#changed].sort((a, b) => a - b);
    this.#changed = new Set();
    this.#takenLength = Math.max(this.#takenLength, this.#parts.length);
    return indexes.map((index) => {
      const part = this.#parts[index];
      return { index, part: part === undefined ? null : { ...part } };
    });
  }

  #add(part: UIPart): number {
    const index = this.#parts.push(part) - 1;
    this.#changed.add(index);
    return index;
  }

  #change<T extends UIPart["type"]>(type: T, index: number | undefined): PartOf<T> | undefined {
    if (index === undefined) return undefined;
    const part = this.#parts[index];
    if (part === undefined || !isPart(part, type)) return undefined;
    this.#changed.add(index);
    return part;
  }

  #finishStep(event: Extract<HubEvent, { type: "step-finish" }>): void {
    this.#openStep = null;
    const { step, finishReason, usage } = event;
    const facts = this.#facts.steps.find((known) => known.step === step);
    if (facts !== undefined) Object.assign(facts, { state: "done", finishReason, usage });
  }

  /** Drops the parts from `length` on. Rows that were never handed out need no voiding. */
  #truncate(length: number): void {
    for (let index = length; index < this.#parts.length; index++) {
      if (index < this.#takenLength) this.#changed.add(index);
      else this.#changed.delete(index);
    }
    this.#parts.length = Math.min(this.#parts.length, length);
    for (const places of [this.#openTexts, this.#openReasonings, this.#tools]) {
      for (const [id, index] of places) if (index >= length) places.delete(id);
    }
    const isGone = (approval: ApprovalFacts) => !this.#tools.has(approval.toolCallId);
    this.#facts.approvals = this.#facts.approvals.filter((approval) => !isGone(approval));
  }

  #applyToTool(
    event: Extract<HubEvent, { type: `tool-input-${string}` | `tool-output-${string}` }>,
  ): void {
    const { toolCallId } = event;
    if ("toolName" in event && !this.#tools.has(toolCallId)) {
      const { toolName } = event;
      const step = this.#openStep ?? 0;
      const part: UIPart = { type: "tool", toolCallId, toolName, state: "streaming", step };
      this.#tools.set(toolCallId, this.#add(part));
    }
    const part = this.#change("tool", this.#tools.get(toolCallId));
    if (part === undefined) return;
    switch (event.type) {
      case "tool-input-start":
        return;
      case "tool-input-delta":
        part.inputText = (part.inputText ?? "") + event.inputTextDelta;
        return;
      case "tool-input-available":
        part.toolName = event.toolName;
        part.state = "call";
        part.input = event.input;
        delete part.inputText;
        return;
      case "tool-input-error":
        part.toolName = event.toolName;
        part.state = "error";
        part.inputText = event.input;
        part.errorText = event.errorText;
        return;
      case "tool-output-available":
        part.output = event.output;
        if (event.preliminary !== true) part.state = "result";
        return;
      case "tool-output-error":
      case "tool-output-denied":
        part.state = "error";
        part.errorText = event.errorText;
        delete part.output;
        if (event.type === "tool-output-denied") part.denied = true;
        return;
    }
  }

  #answer(event: Extract<HubEvent, { type: "tool-approval-response" }>): void {
    const approval = this.#facts.approvals.find((one) => one.approvalId === event.approvalId);
    if (approval === undefined) return;
    approval.response = responseOf(event);
    const part = this.#change("tool", this.#tools.get(approval.toolCallId));
    // A new object: parts that were handed out keep the one they have.
    if (part?.approval !== undefined) part.approval = { ...part.approval, ...approval.response };
  }

  /** A second `data` with the name and id of an earlier one takes its place, as AI SDK clients have it. */
  #applyData(event: Extract<HubEvent, { type: "data" }>): void {
    if (event.transient === true) return;
    const { name, data, id } = event;
    const known = id === undefined
      ? undefined
      : this.#parts.findIndex((part) =>
        part.type === "data" && part.name === name && part.id === id
      );
    const part = known === -1 ? undefined : this.#change("data", known);
    if (part !== undefined) part.data = data;
    else this.#add({ type: "data", name, data, ...(id === undefined ? {} : { id }) });
  }
}

function isPart<T extends UIPart["type"]>(part: UIPart, type: T): part is PartOf<T> {
  return part.type === type;
}
