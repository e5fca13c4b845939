// COPY … FROM STDIN of bytes that are in memory already. The data follows the statement at once, without waiting for
// Postgres to ask for it: when the statement fails, Postgres throws the data away.

import type { ClientBase, Connection, Submittable } from 'pg'

type CopyConnection = Connection & {
  sendCopyFromChunk(chunk: Buffer): void
  endCopyFrom(): void
}

/** `statements` may begin a transaction, and must end with the COPY. */
export function copyIn(client: ClientBase, statements: string, chunks: readonly Buffer[]): Promise<void> {
  return new Promise((resolve, reject) => {
    const query: Submittable & CopyEvents = {
      submit(connection) {
        const { stream } = connection
        stream.cork()
        connection.query(statements)
        for (const chunk of chunks) {
          stream.write(copyDataHeader(chunk.length))
          stream.write(chunk)
        }
        ;(connection as CopyConnection).endCopyFrom()
        stream.uncork()
      },
      handleCopyInResponse() {},
      handleCommandComplete() {},
      handleReadyForQuery: () => resolve(),
      handleError: reject,
    }
    client.query(query)
  })
}

/** What the driver calls on a query of our own. */
type CopyEvents = {
  handleCopyInResponse(): void
  handleCommandComplete(): void
  handleReadyForQuery(): void
  handleError(error: Error): void
}

function copyDataHeader(length: number): Buffer {
  const header = Buffer.allocUnsafe(5)
  header.writeUInt8(0x64, 0)
  header.writeUInt32BE(length + 4, 1)
  return header
}
