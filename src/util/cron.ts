// The times of cron expressions, in the time zone of the process. What was found is kept: reading an expression takes milliseconds, and
// most moments that are asked about lie between the same two times.

import { CronExpressionParser } from 'cron-parser'

type Times = { readonly lastMs: number; readonly nextMs: number }

const found = new Map<string, Times & { readonly offset: number }>()

/** The last time before a moment, and the first one after it. */
export function cronTimes(cron: string, momentMs: number): Times {
  const moment = new Date(momentMs)
  // The zone may be another one by now.
  const offset = moment.getTimezoneOffset()
  const known = found.get(cron)
  if (known && known.lastMs < momentMs && momentMs < known.nextMs && known.offset === offset) return known
  const from = (currentDate: Date) => CronExpressionParser.parse(cron, { currentDate })
  const before = from(moment).prev().toDate()
  // In a night that has no 02:30, what is due then comes an hour later, and only going forward finds that.
  const after = from(before).next().toDate()
  const last = after < moment ? after : before
  const times = { lastMs: last.getTime(), nextMs: from(moment).next().getTime() }
  found.set(cron, { ...times, offset })
  return times
}
