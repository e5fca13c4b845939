// Streams by their names, whatever their places in the table.

import { knownStreams } from '../../src/streams/catalog.ts'

type Streams = (typeof knownStreams)[number]

export function streamOf<Name extends Streams['name']>(name: Name): Extract<Streams, { name: Name }> {
  const stream = knownStreams.find((one): one is Extract<Streams, { name: Name }> => one.name === name)
  if (!stream) throw new Error(`there is no stream ${name}`)
  return stream
}
