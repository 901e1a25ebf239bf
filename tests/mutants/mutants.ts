/** A deliberate defect: a text of one source file that is replaced, and the test that must notice. */
export interface Mutant {
  name: string;
  /** Under `src/`. */
  file: string;
  /** Stands in the file exactly once. */
  from: string;
  to: string;
  /** Under `tests/`. */
  test: string;
  /** Name of the test or step that fails. */
  caughtBy: string;
}

const OWNERSHIP = "store/ownership_test.ts";
const CLAIMS = "store/claim_runs_test.ts";
const OUT_OF_DATE = "a look that is out of date claims nothing: compare-and-set";
const TAKE_OVER = "run/take_over_test.ts";
const BATCHES = "store/budget_batches_test.ts";
const APPROVALS = "store/approvals_test.ts";
const FORMER_OWNER = "a former owner writes nothing, whatever it writes";
const SAME_MOMENT = "numbers are given once to writers of the same moment";
const JOURNAL = "a tool runs once its start stands in the journal, after a takeover too";

/** What the row says in this statement's snapshot, not what it says under its lock. */
const UNLOCKED = "(select q.last_seq from hub.runs q where q.run_id = i.run_id)";

/** The guards of runs (design 06) and of budgets, each taken away. */
export const MUTANTS: readonly Mutant[] = [
  {
    name: "events without fence",
    file: "store/commit_runs.ts",
    from: `r.run_id = i.run_id and r.lease_epoch = i.epoch
        and r.status = 'running' and r.last_seq = i.follows and r.last_seq < i.seq_from`,
    to: `r.run_id = i.run_id
        and r.status = 'running' and r.last_seq = i.follows and r.last_seq < i.seq_from`,
    test: OWNERSHIP,
    caughtBy: FORMER_OWNER,
  },
  {
    name: "rows without fence",
    file: "store/commit_runs.ts",
    from: `r.run_id = i.run_id and r.lease_epoch = i.epoch
        and r.status = 'running' and r.last_seq = i.follows
`,
    to: `r.run_id = i.run_id
        and r.status = 'running' and r.last_seq = i.follows
`,
    test: OWNERSHIP,
    caughtBy: FORMER_OWNER,
  },
  {
    name: "renewal without fence",
    file: "store/runs.ts",
    from: "r.run_id = i.run_id and r.lease_epoch = i.epoch and r.status = 'running'",
    to: "r.run_id = i.run_id and r.status = 'running'",
    test: OWNERSHIP,
    caughtBy: FORMER_OWNER,
  },
  {
    name: "release without fence",
    file: "store/runs.ts",
    from: "and lease_epoch = ${epoch}",
    to: "and ${epoch}::bigint > 0",
    test: OWNERSHIP,
    caughtBy: FORMER_OWNER,
  },
  {
    name: "the epoch of a later look",
    file: "run/take_over.ts",
    from: "if (run === null || run.epoch !== claim.epoch) return null;",
    to: "if (run === null) return null;",
    test: TAKE_OVER,
    caughtBy: "a replica that freezes between claim and look lets go of the run",
  },
  {
    name: "tools without intent record",
    file: "inference/tool_phase.ts",
    from: "ledger.add([], held.map(started));",
    to: "",
    test: TAKE_OVER,
    caughtBy: JOURNAL,
  },
  {
    name: "intent that is not waited for",
    file: "run/recorder.ts",
    from: "batch.calls !== undefined || batch.steps !== undefined",
    to: "batch.steps !== undefined",
    test: TAKE_OVER,
    caughtBy: JOURNAL,
  },
  {
    name: "effects that are done again",
    file: "inference/resume.ts",
    from: `record.effect !== "effect" && isAsCalled(record, tool)`,
    to: "isAsCalled(record, tool)",
    test: "inference/resume_test.ts",
    caughtBy: "a call that began and may act outside is in doubt; one that had not begun runs",
  },
  {
    name: "numbers of events without row lock",
    file: "store/commit_runs.ts",
    from: "r.last_seq = i.follows and r.last_seq < i.seq_from",
    to: `${UNLOCKED} = i.follows and ${UNLOCKED} < i.seq_from`,
    test: OWNERSHIP,
    caughtBy: `${SAME_MOMENT}: events alone`,
  },
  {
    name: "numbers of rows without row lock",
    file: "store/commit_runs.ts",
    from: `r.last_seq = i.follows
        and case when i.seq_from is null then r.seq_reserved <= i.reserve else r.last_seq < i.seq_from end`,
    to: `${UNLOCKED} = i.follows
        and case when i.seq_from is null then r.seq_reserved <= i.reserve else ${UNLOCKED} < i.seq_from end`,
    test: OWNERSHIP,
    caughtBy: `${SAME_MOMENT}: rows of all kinds`,
  },
  {
    name: "numbers that were shown are used again",
    file: "run/take_over.ts",
    from: "lastSeq: step === null ? run.lastSeq : run.reservedTo,",
    to: "lastSeq: run.lastSeq,",
    test: TAKE_OVER,
    caughtBy: "a step in flight begins again, behind all numbers that may be known",
  },
  {
    name: "claim without row lock",
    file: "store/claim_runs.ts",
    from: "limit ${options.limit} for update skip locked) c",
    to: "limit ${options.limit}) c",
    test: OWNERSHIP,
    caughtBy: "a run is claimed by one, also when two look at the same moment",
  },
  {
    name: "claim without compare-and-set",
    file: "store/claim_runs.ts",
    from: "and r.lease_epoch = ${run.epoch}",
    to: "",
    test: CLAIMS,
    caughtBy: OUT_OF_DATE,
  },
  {
    name: "claim of a run that ended after the look",
    file: "store/claim_runs.ts",
    from: `
        and \${isAbandoned(sql)}`,
    to: "",
    test: CLAIMS,
    caughtBy: OUT_OF_DATE,
  },
  {
    name: "claim without a new epoch",
    file: "store/claim_runs.ts",
    from: "lease_epoch = r.lease_epoch + 1",
    to: "lease_epoch = r.lease_epoch",
    test: OWNERSHIP,
    caughtBy: FORMER_OWNER,
  },
  {
    name: "claim of a run that goes on",
    file: "store/claim_runs.ts",
    from: "and (r.lease_until is null or r.lease_until < now())",
    to: "",
    test: OWNERSHIP,
    caughtBy: "a run that goes on is claimed by nobody; one that was left, at once",
  },
  {
    name: "attempts forgotten without a finished step",
    file: "store/commit_runs.ts",
    from: `case when i."stepDone" then 0 else r.attempts end`,
    to: "0",
    test: OWNERSHIP,
    caughtBy: "nine claims without a finished step are one too many",
  },
  {
    name: "an end past a text that nobody read",
    file: "store/commit_runs.ts",
    from: "and (i.finish is null or i.steered is null or r.steer_count <= i.steered)",
    to: "",
    test: "store/steering_test.ts",
    caughtBy: "no end is written past a text that its writer does not know",
  },
  {
    name: "NOTIFY inside the write",
    file: "store/commit_runs.ts",
    from: `select run_id, stop, steered from fenced\`);
}

function writeAll`,
    to: `select run_id, stop, steered, pg_notify('loophub', '{}') from fenced\`);
}

function writeAll`,
    test: OWNERSHIP,
    caughtBy: "no write notifies anybody: that would cost most of the commits",
  },
  {
    name: "answers without compare-and-set",
    file: "store/approvals.ts",
    from: "a.run_id = l.run_id and a.state = 'pending' and",
    to: "a.run_id = l.run_id and",
    test: APPROVALS,
    caughtBy: "of fifty answers at once one counts, and the run is anybody's then",
  },
  {
    name: "answers to a run that is stopped",
    file: "store/approvals.ts",
    from: `and r.status in ('queued', 'running', 'waiting') and r.cancel_requested_at is null
      for update`,
    to: `and r.status in ('queued', 'running', 'waiting')
      for update`,
    test: APPROVALS,
    caughtBy: "an answer comes behind no stop",
  },
  {
    name: "waiting past an answer",
    file: "store/commit_runs.ts",
    from: "or r.decision_count > (i.pause ->> 'decisions')::int then",
    to: "then",
    test: APPROVALS,
    caughtBy: "an answer that comes before the run waits is not slept through",
  },
  {
    name: "approved calls that are not as they were shown",
    file: "inference/approvals.ts",
    from: "if (isApproved && isAsShown) {",
    to: "if (isApproved && tool !== undefined && input !== null) {",
    test: "inference/approvals_test.ts",
    caughtBy: "an answer holds for what was shown alone, and nothing else runs",
  },
  {
    name: "words of others that are forgotten",
    file: "run/permit.ts",
    from: "heedsTaint && isTouchy(tool) ? await readOutsideSources(db, judged) : []",
    to: "[]",
    test: "run/permit_test.ts",
    caughtBy: "what a session has read of others is asked about in all its runs",
  },
  {
    name: "a reservation that does not know those before it in its batch",
    file: "store/budgets.ts",
    from: "case when v.fits then d.room || v.less else d.room end",
    to: "d.room",
    test: BATCHES,
    caughtBy: "reservations of one statement get what they get one after the other",
  },
  {
    name: "a batch of reservations that is let in unseen",
    file: "store/budgets.ts",
    from: "bool_and(coalesce(spent + reserved + a <= hard, true))",
    to: "bool_and(coalesce(spent + reserved <= hard, true))",
    test: BATCHES,
    caughtBy: "reservations of one statement get what they get one after the other",
  },
  {
    name: "a batch of calls in a minute that has no room for it",
    file: "store/rates.ts",
    from: "coalesce(hub.sum_of_slices(r.slices, m.since, 0) + m.n <= m.mr, true)",
    to: "coalesce(hub.sum_of_slices(r.slices, m.since, 0) < m.mr, true)",
    test: BATCHES,
    caughtBy:
      "places in minutes that are taken in one statement are those taken one after the other",
  },
  {
    name: "answers that end before their cost is settled",
    file: "router/answer.ts",
    from: "if (settled !== undefined) await settled;",
    to: "",
    test: "e2e/budgets_sequence_test.ts",
    caughtBy: "streams, from the frame that ends them",
  },
  {
    name: "an estimate that takes the place of real figures",
    file: "store/usage_rows.ts",
    from: "and excluded.error_code is distinct from ${ORPHANED}",
    to: "or excluded.error_code = ${ORPHANED}",
    test: "store/usage_rows_test.ts",
    caughtBy: "the row of a lost call gives way to its own figures, and to nothing else",
  },
  {
    name: "real figures that are charged on top of the estimate",
    file: "store/settle_budgets.ts",
    from: "settled_micros - coalesce(former_micros, 0) as spent",
    to: "settled_micros as spent",
    test: "store/budgets_test.ts",
    caughtBy: "real figures replace what an orphaned call was charged",
  },
];
