// The streams that somebody named.

import { nearest } from './nearest.ts'
import { UsageError } from './usage-error.ts'

type Named = { readonly name: string }

export function pickStreams<Stream extends Named>(
  names: readonly string[],
  configured: readonly Stream[],
): readonly Stream[] {
  if (names.length === 0) return configured
  return [...new Set(names)].map((name) => pickStream(name, configured))
}

export function pickStream<Stream extends Named>(name: string, configured: readonly Stream[]): Stream {
  const stream = configured.find((candidate) => candidate.name === name)
  if (stream) return stream
  const known = configured.map((candidate) => candidate.name)
  const [near] = nearest(name, known)
  throw new UsageError(
    `There is no stream "${name}"${near ? `; did you mean ${near}?` : '.'} The streams here are ${known.join(', ')}`,
  )
}
