/** One file of a journal, and the records in it that are not booked. */
export class JournalSegment {
  readonly path: string;
  /** Bytes written and on their way. */
  size = 0;
  /** Records in it that wait to be booked. */
  readonly waiting = new Set<string>();
  /** Rows of it have left memory: it is read again before it may go. */
  isSpilled = false;
  readonly #file: Deno.FsFile;
  /** The same file for writes at once: the runtime allows none while another one is under way. */
  readonly #urgent: Deno.FsFile;

  private constructor(path: string, file: Deno.FsFile, urgent: Deno.FsFile) {
    this.path = path;
    this.#file = file;
    this.#urgent = urgent;
  }

  /** Makes the file, readable by its owner alone. */
  static create(path: string): JournalSegment {
    const file = Deno.openSync(path, { append: true, createNew: true, mode: 0o600 });
    return new JournalSegment(path, file, Deno.openSync(path, { append: true }));
  }

  /** True when nothing in it is needed any more. */
  get isBooked(): boolean {
    return this.waiting.size === 0 && !this.isSpilled;
  }

  /** Appends bytes; they survive the end of the process, and after `sync` that of the machine. */
  async write(bytes: Uint8Array): Promise<void> {
    for (let at = 0; at < bytes.length;) at += await this.#file.write(bytes.subarray(at));
  }

  /** As `write`, before it returns. */
  writeNow(bytes: Uint8Array): void {
    for (let at = 0; at < bytes.length;) at += this.#urgent.writeSync(bytes.subarray(at));
  }

  async sync(): Promise<void> {
    await this.#file.syncData();
  }

  /** Drops what it has; only when nothing is being written. */
  truncate(): void {
    this.#urgent.truncateSync(0);
    this.size = 0;
  }

  close(): void {
    this.#file.close();
    this.#urgent.close();
  }
}
