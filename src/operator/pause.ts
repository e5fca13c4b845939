// Pausing and resuming a stream, and what is said of it.

import type { Pool } from 'pg'
import { formatDuration } from '../duration.ts'
import { pauseStream, resumeStream } from '../mirror/pauses.ts'

type Wanted = { readonly stream: string; readonly by: string; readonly reason: string | null }

export async function pauseInWords(pool: Pool, wanted: Wanted): Promise<string> {
  return (await pauseStream(pool, wanted))
    ? `${wanted.stream} is paused: the workers leave it alone until it is resumed`
    : `${wanted.stream} was paused already`
}

export async function resumeInWords(pool: Pool, stream: string): Promise<string> {
  const ended = await resumeStream(pool, stream)
  return ended === null
    ? `${stream} was not paused`
    : `${stream} is read again; it was paused for ${formatDuration(Date.now() - ended.at.getTime())}`
}
