// All documents, in the order in which the API's description has them.

import { actions, verification } from './actions.ts'
import { deletions } from './deletions.ts'
import type { Document } from './document.ts'
import { history } from './history.ts'
import { sessions, tokens } from './people.ts'
import { backfills, checkpoints } from './positions.ts'
import { quarantine } from './quarantine.ts'
import { record } from './records.ts'
import { rows } from './rows.ts'
import { run, runs } from './runs.ts'
import { alerts, dictionary, settings } from './settings.ts'
import { sources } from './sources.ts'
import { oneStream, problems, status, streams } from './status.ts'
import { beliefs, workers } from './upstream.ts'

export const documents: Readonly<Record<string, Document>> = {
  status,
  sources,
  streams,
  oneStream,
  problems,
  alerts,
  runs,
  run,
  rows,
  record,
  history,
  dictionary,
  checkpoints,
  backfills,
  deletions,
  quarantine,
  actions,
  verification,
  beliefs,
  workers,
  settings,
  tokens,
  sessions,
}
