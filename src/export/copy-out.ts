// What COPY … TO STDOUT sends, as it comes: no more of it is in memory than the reader needs (P10).

import type { ClientBase, Connection, Submittable } from 'pg'

const mostWaiting = 4_000_000

/** What the driver calls on a query of our own. */
type CopyOut = Submittable & {
  handleCopyData(message: { readonly chunk: Buffer }): void
  handleRowDescription(): void
  handleDataRow(): void
  handleCommandComplete(): void
  handleReadyForQuery(): void
  handleError(error: Error): void
}

/** The messages of one COPY, some at a time. Postgres sends one for each row. */
export async function* copyOut(client: ClientBase, statement: string): AsyncGenerator<readonly Buffer[]> {
  let waiting: Buffer[] = []
  let bytes = 0
  let ended: { readonly error: Error | null } | null = null
  let connection: Connection | null = null
  let news = Promise.withResolvers<void>()
  const end = (error: Error | null) => {
    ended ??= { error }
    news.resolve()
  }
  const query: CopyOut = {
    submit(opened) {
      connection = opened
      opened.query(statement)
    },
    handleCopyData({ chunk }) {
      // The driver uses its memory again.
      waiting.push(Buffer.from(chunk))
      bytes += chunk.length
      if (bytes > mostWaiting) connection?.stream.pause()
      news.resolve()
    },
    handleRowDescription() {},
    handleDataRow() {},
    handleCommandComplete() {},
    handleReadyForQuery: () => end(null),
    handleError: end,
  }
  client.query(query)
  for (;;) {
    if (waiting.length > 0) {
      const taken = waiting
      ;[waiting, bytes] = [[], 0]
      resume(connection)
      yield taken
    } else if (ended !== null) {
      const { error } = ended as { readonly error: Error | null }
      if (error) throw error
      return
    } else {
      news = Promise.withResolvers()
      await news.promise
    }
  }
}

const resume = (connection: Connection | null) => connection?.stream.resume()

const headerBytes = 11
/** The rows of COPY in the binary form, as their cells; null: no value. */
export function* rowsIn(messages: readonly Buffer[], isFirst: boolean): Generator<(Buffer | null)[]> {
  for (const [index, message] of messages.entries()) {
    // Before the first row stand a signature, flags, and an extension with its length.
    let at = isFirst && index === 0 ? headerBytes + 8 + message.readInt32BE(headerBytes + 4) : 0
    const count = at < message.length ? message.readInt16BE(at) : -1
    if (count < 0) continue
    at += 2
    const cells: (Buffer | null)[] = []
    for (let cell = 0; cell < count; cell++) {
      const length = message.readInt32BE(at)
      at += 4
      cells.push(length < 0 ? null : message.subarray(at, at + length))
      at += Math.max(length, 0)
    }
    yield cells
  }
}
