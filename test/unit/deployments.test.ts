// What deploys Tidemark names the version that it deploys, and settings that there are; what builds it runs nobody's newest code.

import { globSync, readFileSync } from 'node:fs'
import { describe, expect, it } from 'vitest'
import { parse } from 'yaml'
import { variables } from '../../src/config/variables.ts'

const checkout = new URL('../../', import.meta.url)
const textOf = (path: string) => readFileSync(new URL(path, checkout), 'utf8')

describe('the Helm chart', () => {
  it('has the version of the package', () => {
    const { version } = JSON.parse(textOf('package.json'))
    expect(parse(textOf('deploy/helm/tidemark/Chart.yaml'))).toMatchObject({ version, appVersion: version })
  })

  it('asks for the settings that are required, and for no others', () => {
    const required = Object.entries(variables).flatMap(([name, { fallback }]) =>
      fallback === 'required' ? [name] : [],
    )
    const lists = [
      ...textOf('deploy/helm/tidemark/templates/_helpers.tpl').matchAll(/:= list ((?:"\w+" ?)+)/g),
    ]
    const asked = lists.flatMap(([, names = '']) => [...names.matchAll(/\w+/g)].map(([name]) => name))
    expect(asked.toSorted()).toEqual([...required, 'DATABASE_URL'].toSorted())
  })
})

describe('the workflows', () => {
  it('name each action by the hash of a commit', () => {
    const uses = globSync('.github/workflows/*.yml', { cwd: checkout.pathname }).flatMap((path) =>
      [...textOf(path).matchAll(/uses: (.+)/g)].map(([, action]) => action),
    )
    expect(uses.length).toBeGreaterThan(5)
    expect(uses.filter((action) => !/^[\w/-]+@[0-9a-f]{40} # v\d/.test(action ?? ''))).toEqual([])
  })
})
