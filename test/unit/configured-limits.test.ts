// Who shares a budget of requests with whom, by the settings (P10, P19).

import { expect, it } from 'vitest'
import { loadConfig } from '../../src/config/load.ts'
import { openConfiguredUpstream } from '../../src/configured.ts'
import { openLog } from '../../src/log.ts'
import { openBudgets } from '../../src/upstream/http/budget.ts'
import { complete } from '../support/settings.ts'

const log = openLog({ level: 'fatal' })

/** The budgets of a source: its own, and that of its host where the settings name it. */
function budgetsOf(changes: Readonly<Record<string, string>>): readonly string[] {
  const known = openBudgets()
  const names: string[] = []
  const of = (bucket: string) => {
    names.push(bucket)
    return known.of(bucket)
  }
  const settings = { ...complete, ASSIGNMENT_BASE_URL: 'https://api.example:8443/one', ...changes }
  openConfiguredUpstream(
    { config: loadConfig(settings), log, budgets: { ...known, of } },
    'assignment',
  ).close()
  return names
}

it('P10: sources with one address and one sign-in have one budget, and those with others have others', () => {
  const usual = budgetsOf({})
  expect(usual).toEqual([expect.stringMatching(/^https:\/\/api\.example:8443 [0-9a-f]{12}$/)])
  expect(budgetsOf({ ASSIGNMENT_BASE_URL: 'https://api.example:8443/two' })).toEqual(usual)
  expect(budgetsOf({ SUBJECT_ID: 'somebody else' })).not.toEqual(usual)
  expect(budgetsOf({ AUTH_URL: 'https://id2.example' })).not.toEqual(usual)
  expect(budgetsOf({ ASSIGNMENT_BASE_URL: 'https://api.example/one' })).not.toEqual(usual)
})

it('P10: a host that the settings name has a budget beside them, with its port or without', () => {
  for (const name of ['api.example', 'api.example:8443']) {
    const [own, host] = budgetsOf({ HOST_REQUESTS_PER_SECOND: `other.example=1, ${name}=50` })
    const [another, same] = budgetsOf({
      HOST_REQUESTS_PER_SECOND: `${name}=50`,
      SUBJECT_ID: 'somebody else',
    })
    expect([host, same]).toEqual([name, name])
    expect(own).not.toBe(another)
  }
  expect(budgetsOf({ HOST_REQUESTS_PER_SECOND: 'other.example=1,api.example:1=1' })).toHaveLength(1)
})
