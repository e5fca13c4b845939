// An upstream may answer with nothing by mistake. Where an empty answer would be taken for the end, it is asked for a second time.

import type { Answer, Refusal } from './ports/source.ts'

export async function confirmEmpty<Any extends Answer | Refusal>(ask: () => Promise<Any>): Promise<Any> {
  const answer = await ask()
  const isNothing = 'records' in answer && answer.records.length === 0 && answer.noPage === undefined
  return isNothing ? ask() : answer
}
