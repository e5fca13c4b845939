// `tidemark quarantine retry`: tries records in quarantine again.

import { type Call, type ExitCode, exitCodes } from '../cli/command.ts'
import { loadConfig } from '../config.ts'
import type { QuarantineSelection } from '../mirror/quarantine-review.ts'
import { nothingTried, retrySelected, retrySentence } from '../operator/quarantine-retry.ts'
import { expectEntry } from '../operator/quarantine-selection.ts'
import type { RetryOutcome } from '../sync/retry-quarantine.ts'
import { openWorkplace } from '../workplace.ts'

export async function retryEntries(call: Call, selection: QuarantineSelection): Promise<ExitCode> {
  const { environment, values, log, signal, stdout } = call
  const config = loadConfig(environment)
  await using workplace = await openWorkplace({ config, log })
  await expectEntry(workplace.database.pool, selection)
  const outcomes: RetryOutcome[] = []
  for await (const outcome of retrySelected(workplace, selection, signal)) {
    outcomes.push(outcome)
    if (!values.json) stdout.write(`${retrySentence(outcome)}\n`)
  }
  if (values.json) stdout.write(`${JSON.stringify(outcomes.map(asJson), null, 2)}\n`)
  else if (outcomes.length === 0) stdout.write(`${await nothingTried(workplace.database.pool, selection)}\n`)
  return outcomes.every(({ status }) => status === 'done') ? exitCodes.done : exitCodes.failed
}

const asJson = ({ stream, status, runId, findings, note, error }: RetryOutcome) => ({
  stream,
  status,
  run: runId,
  ...findings,
  note,
  error: error?.message ?? null,
})
