// Controls the stand-in over HTTP while it runs: GET /simulator shows the switches and how many requests came, POST /simulator/behaviour
// sets some of them, POST /simulator/faults replaces the faults, POST /simulator/backups/NAME keeps the data, and …/NAME/restore brings it back.

import { type Answer, empty, type Incoming, invalid, json } from './answer.ts'
import { type Behaviour, isSwitchName, type Look, wrongSwitchValue } from './behaviour.ts'
import { type Faults, readFault } from './faults.ts'
import { mostWithin, type RequestLog } from './request-log.ts'
import type { Backup, Source } from './source.ts'

export type Control = (request: Incoming) => Answer

export function openControl(parts: {
  readonly look: Look
  readonly behaviour: Behaviour
  readonly source: Source
  readonly faults: Faults
  readonly log: RequestLog
}): Control {
  const { look, behaviour, source, faults, log } = parts
  const backups = new Map<string, Backup>()

  function setSwitches(body: Buffer): Answer {
    const wanted = parsed(body)
    if (!wanted) return invalid({ '': ['The body is no JSON object of switches and their values.'] })
    const errors = Object.entries(wanted).flatMap(([name, value]) => {
      const wrong = isSwitchName(name) ? wrongSwitchValue(name, value) : 'There is no such switch.'
      return wrong === null ? [] : [[name, [wrong]] as const]
    })
    if (errors.length > 0) return invalid(Object.fromEntries(errors))
    Object.assign(behaviour, wanted)
    return empty(204)
  }

  /** Written as on the command line; none: all is well again. */
  function setFaults(body: Buffer): Answer {
    const lines = body.toString().split(/\s+/).filter(Boolean)
    const read = lines.map((line) => readFault(line))
    const errors = read.flatMap((one, at) => ('wrong' in one ? [[lines[at], [one.wrong]] as const] : []))
    if (errors.length > 0) return invalid(Object.fromEntries(errors))
    faults.clear()
    for (const one of read) if (!('wrong' in one)) faults.add(one)
    return empty(204)
  }

  function restore(name: string, keepsCounter: boolean): Answer {
    const backup = backups.get(name)
    if (!backup) return invalid({ [name]: ['There is no such backup.'] })
    source.restoreBackup(backup, { keepsCounter })
    return empty(204)
  }

  return ({ method, path, query, body }) => {
    if (method === 'GET' && path === '/')
      return json(200, {
        look,
        behaviour,
        backups: [...backups.keys()],
        faultsStruck: faults.struck,
        requests: { lately: log.times.length, mostInOneSecond: mostWithin(1_000, log.times) },
      })
    if (method !== 'POST') return empty(404)
    if (path === '/behaviour') return setSwitches(body)
    if (path === '/faults') return setFaults(body)
    const [, name, isRestore] = /^\/backups\/([\w-]+)(\/restore)?$/.exec(path) ?? []
    if (name === undefined) return empty(404)
    if (isRestore) return restore(name, query.get('keepcounter') === 'true')
    backups.set(name, source.takeBackup())
    return empty(204)
  }
}

function parsed(body: Buffer): Readonly<Record<string, unknown>> | null {
  try {
    const value: unknown = JSON.parse(body.toString())
    return typeof value === 'object' && value !== null && !Array.isArray(value) ? { ...value } : null
  } catch {
    return null
  }
}
