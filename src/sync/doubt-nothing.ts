// An upstream may slip and answer nothing, once. Where that would look like the end, it is asked a second time.

import type { Answer, Refusal } from './ports.ts'

export async function doubtNothing<Any extends Answer | Refusal>(ask: () => Promise<Any>): Promise<Any> {
  const answer = await ask()
  const isNothing = 'records' in answer && answer.records.length === 0
  return isNothing ? ask() : answer
}
