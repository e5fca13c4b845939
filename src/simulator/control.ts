// Controls the stand-in over HTTP while it runs: GET /simulator shows the switches, POST /simulator/behaviour sets some of
// them, POST /simulator/backups/NAME keeps the data, and …/NAME/restore brings it back.

import { type Answer, empty, type Incoming, invalid, json } from './answer.ts'
import { type Behaviour, isSwitchName, type Look, wrongSwitchValue } from './behaviour.ts'
import type { Backup, Source } from './source.ts'

export type Control = (request: Incoming) => Answer

export function openControl(parts: {
  readonly look: Look
  readonly behaviour: Behaviour
  readonly source: Source
}): Control {
  const { look, behaviour, source } = parts
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

  function restore(name: string, keepsCounter: boolean): Answer {
    const backup = backups.get(name)
    if (!backup) return invalid({ [name]: ['There is no such backup.'] })
    source.restoreBackup(backup, { keepsCounter })
    return empty(204)
  }

  return ({ method, path, query, body }) => {
    if (method === 'GET' && path === '/') return json(200, { look, behaviour, backups: [...backups.keys()] })
    if (method !== 'POST') return empty(404)
    if (path === '/behaviour') return setSwitches(body)
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
