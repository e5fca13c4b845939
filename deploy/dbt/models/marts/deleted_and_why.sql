-- Which assignments were deleted, when was that noticed, and why are they known to be?
select
    _deleted_at_local::date as day,
    _deleted_reason as reason,
    count(*) as assignments,
    sum(price) as price
from {{ ref('stg_tidemark__assignment_deleted') }}
group by 1, 2
