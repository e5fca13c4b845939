// The settings of a stream, as its page shows them: variables, values and meanings. No secret is among them (P9).

import type { Config, Schedule } from '../config/load.ts'
import { variables } from '../config/variables.ts'
import type { Stream } from '../streams/catalog.ts'
import { formatDuration } from '../util/text.ts'
import type { Setting } from '../web/status-queries.ts'

export function settingsOf(config: Config, streams: readonly Stream[], name: string): readonly Setting[] {
  const stream = streams.find((one) => one.name === name)
  if (!stream) return []
  const own = name.toUpperCase()
  const schedule = config.schedules[name]
  const common: readonly Setting[] = [
    {
      variable: `SCHEDULE_${own}`,
      value: schedule ? scheduleInWords(schedule) : 'off',
      meaning: 'how often it is read',
    },
    said('STALE_AFTER', formatDuration(config.staleAfterMs)),
    said('DELETIONS_FROZEN_AFTER', formatDuration(config.deletionsFrozenAfterMs)),
    said('PAGE_SIZE', String(config.pageSize)),
    said(
      'REQUESTS_PER_SECOND',
      config.requestsPerSecond === null ? 'no limit' : String(config.requestsPerSecond),
    ),
    said('SOURCE_TIMEZONE', config.sourceTimezone),
  ]
  if (stream.kind === 'list')
    return [
      ...common,
      {
        variable: `KEY_${own}`,
        value: config.keyFields[name] ?? 'found in the data',
        meaning: 'the field that is its key, or several that make it together',
      },
    ]
  return [
    ...common,
    said('LOOKBACK', formatDuration(config.lookbackMs)),
    said('SCHEDULE_RECONCILE', scheduleInWords(config.scheduleReconcile)),
    said('SCHEDULE_DELETIONS', scheduleInWords(config.scheduleDeletions)),
    {
      variable: `VOLATILE_${own}`,
      value: config.volatileFields[name]?.join(', ') ?? 'found by reconciles',
      meaning: 'fields that change without a new row version, and are not compared',
    },
  ]
}

const said = (variable: string, value: string): Setting => ({
  variable,
  value,
  meaning: variables[variable]?.describe ?? '',
})

const scheduleInWords = (schedule: Schedule): string =>
  'cron' in schedule ? schedule.cron : `every ${formatDuration(schedule.everyMs)}`
