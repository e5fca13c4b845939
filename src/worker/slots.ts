// When a schedule was last due.

import { CronExpressionParser } from 'cron-parser'
import type { Schedule } from '../variable-schemas.ts'

export const lastSlot = (schedule: Schedule, moment: Date): Date =>
  'everyMs' in schedule
    ? new Date(moment.getTime() - schedule.everyMs)
    : CronExpressionParser.parse(schedule.cron, { currentDate: moment }).prev().toDate()
