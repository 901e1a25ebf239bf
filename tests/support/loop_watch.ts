/**
 * Does `work` and gives the longest time, in milliseconds, for which the event loop did nothing else. Another process
 * may take the processor away meanwhile: callers measure again before they believe a long one (`tookUnder`).
 */
export async function longestStretch(work: () => Promise<unknown>): Promise<number> {
  let longestMs = 0;
  let isOver = false;
  let turnMs = performance.now();
  const look = () => {
    const nowMs = performance.now();
    longestMs = Math.max(longestMs, nowMs - turnMs);
    turnMs = nowMs;
    if (!isOver) setTimeout(look, 0);
  };
  setTimeout(look, 0);
  try {
    await work();
    // The last stretch has ended once a timer has had its turn.
    await new Promise((resolve) => setTimeout(resolve, 0));
  } finally {
    isOver = true;
  }
  return Math.max(longestMs, performance.now() - turnMs);
}
