/** Drops rows batch by batch, so that each statement stays far within its deadline. Gives how many there were. */
export async function pruneInBatches(
  batch: number,
  dropBatch: () => Promise<readonly unknown[]>,
): Promise<number> {
  let dropped = 0;
  for (;;) {
    const { length } = await dropBatch();
    dropped += length;
    if (length < batch) return dropped;
  }
}
