"""The signatures of all functions, as tables.

A function's name, then its overloads: the overload's id (with a leading dot when it is
called on a target), the types of the arguments (the target first), the result. Capital
letters are type variables; authz. is short for kubernetes.authorization. The ids matter:
costs are defined for them.
"""

from __future__ import annotations

STANDARD = """
!_
  logical_not(bool) -> bool
-_
  negate_double(double) -> double
  negate_int64(int) -> int
@in
  in_list(A, list(A)) -> bool
  in_map(A, map(A, B)) -> bool
@not_strictly_false
  not_strictly_false(bool) -> bool
_!=_
  not_equals(A, A) -> bool
_%_
  modulo_int64(int, int) -> int
  modulo_uint64(uint, uint) -> uint
_&&_
  logical_and(bool, bool) -> bool
_*_
  multiply_double(double, double) -> double
  multiply_int64(int, int) -> int
  multiply_uint64(uint, uint) -> uint
_+_
  add_bytes(bytes, bytes) -> bytes
  add_double(double, double) -> double
  add_duration_duration(duration, duration) -> duration
  add_duration_timestamp(duration, timestamp) -> timestamp
  add_timestamp_duration(timestamp, duration) -> timestamp
  add_int64(int, int) -> int
  add_list(list(A), list(A)) -> list(A)
  add_string(string, string) -> string
  add_uint64(uint, uint) -> uint
_-_
  subtract_double(double, double) -> double
  subtract_duration_duration(duration, duration) -> duration
  subtract_int64(int, int) -> int
  subtract_timestamp_duration(timestamp, duration) -> timestamp
  subtract_timestamp_timestamp(timestamp, timestamp) -> duration
  subtract_uint64(uint, uint) -> uint
_/_
  divide_double(double, double) -> double
  divide_int64(int, int) -> int
  divide_uint64(uint, uint) -> uint
_<=_
  less_equals_bool(bool, bool) -> bool
  less_equals_int64(int, int) -> bool
  less_equals_int64_double(int, double) -> bool
  less_equals_int64_uint64(int, uint) -> bool
  less_equals_uint64(uint, uint) -> bool
  less_equals_uint64_double(uint, double) -> bool
  less_equals_uint64_int64(uint, int) -> bool
  less_equals_double(double, double) -> bool
  less_equals_double_int64(double, int) -> bool
  less_equals_double_uint64(double, uint) -> bool
  less_equals_string(string, string) -> bool
  less_equals_bytes(bytes, bytes) -> bool
  less_equals_timestamp(timestamp, timestamp) -> bool
  less_equals_duration(duration, duration) -> bool
_<_
  less_bool(bool, bool) -> bool
  less_int64(int, int) -> bool
  less_int64_double(int, double) -> bool
  less_int64_uint64(int, uint) -> bool
  less_uint64(uint, uint) -> bool
  less_uint64_double(uint, double) -> bool
  less_uint64_int64(uint, int) -> bool
  less_double(double, double) -> bool
  less_double_int64(double, int) -> bool
  less_double_uint64(double, uint) -> bool
  less_string(string, string) -> bool
  less_bytes(bytes, bytes) -> bool
  less_timestamp(timestamp, timestamp) -> bool
  less_duration(duration, duration) -> bool
_==_
  equals(A, A) -> bool
_>=_
  greater_equals_bool(bool, bool) -> bool
  greater_equals_int64(int, int) -> bool
  greater_equals_int64_double(int, double) -> bool
  greater_equals_int64_uint64(int, uint) -> bool
  greater_equals_uint64(uint, uint) -> bool
  greater_equals_uint64_double(uint, double) -> bool
  greater_equals_uint64_int64(uint, int) -> bool
  greater_equals_double(double, double) -> bool
  greater_equals_double_int64(double, int) -> bool
  greater_equals_double_uint64(double, uint) -> bool
  greater_equals_string(string, string) -> bool
  greater_equals_bytes(bytes, bytes) -> bool
  greater_equals_timestamp(timestamp, timestamp) -> bool
  greater_equals_duration(duration, duration) -> bool
_>_
  greater_bool(bool, bool) -> bool
  greater_int64(int, int) -> bool
  greater_int64_double(int, double) -> bool
  greater_int64_uint64(int, uint) -> bool
  greater_uint64(uint, uint) -> bool
  greater_uint64_double(uint, double) -> bool
  greater_uint64_int64(uint, int) -> bool
  greater_double(double, double) -> bool
  greater_double_int64(double, int) -> bool
  greater_double_uint64(double, uint) -> bool
  greater_string(string, string) -> bool
  greater_bytes(bytes, bytes) -> bool
  greater_timestamp(timestamp, timestamp) -> bool
  greater_duration(duration, duration) -> bool
_?_:_
  conditional(bool, A, A) -> A
_[_]
  index_list(list(A), int) -> A
  index_map(map(A, B), A) -> B
  optional_list_index_int(optional_type(list(V)), int) -> optional_type(V)
  optional_map_index_value(optional_type(map(K, V)), K) -> optional_type(V)
__not_strictly_false__
  __not_strictly_false__(bool) -> bool
_in_
  in_list(A, list(A)) -> bool
  in_map(A, map(A, B)) -> bool
_||_
  logical_or(bool, bool) -> bool
bool
  bool_to_bool(bool) -> bool
  string_to_bool(string) -> bool
bytes
  bytes_to_bytes(bytes) -> bytes
  string_to_bytes(string) -> bytes
contains
  .contains_string(string, string) -> bool
double
  double_to_double(double) -> double
  int64_to_double(int) -> double
  string_to_double(string) -> double
  uint64_to_double(uint) -> double
duration
  duration_to_duration(duration) -> duration
  int64_to_duration(int) -> duration
  string_to_duration(string) -> duration
dyn
  to_dyn(A) -> dyn
endsWith
  .ends_with_string(string, string) -> bool
getDate
  .timestamp_to_day_of_month_1_based(timestamp) -> int
  .timestamp_to_day_of_month_1_based_with_tz(timestamp, string) -> int
getDayOfMonth
  .timestamp_to_day_of_month(timestamp) -> int
  .timestamp_to_day_of_month_with_tz(timestamp, string) -> int
getDayOfWeek
  .timestamp_to_day_of_week(timestamp) -> int
  .timestamp_to_day_of_week_with_tz(timestamp, string) -> int
getDayOfYear
  .timestamp_to_day_of_year(timestamp) -> int
  .timestamp_to_day_of_year_with_tz(timestamp, string) -> int
getFullYear
  .timestamp_to_year(timestamp) -> int
  .timestamp_to_year_with_tz(timestamp, string) -> int
getHours
  .timestamp_to_hours(timestamp) -> int
  .timestamp_to_hours_with_tz(timestamp, string) -> int
  .duration_to_hours(duration) -> int
getMilliseconds
  .timestamp_to_milliseconds(timestamp) -> int
  .timestamp_to_milliseconds_with_tz(timestamp, string) -> int
  .duration_to_milliseconds(duration) -> int
getMinutes
  .timestamp_to_minutes(timestamp) -> int
  .timestamp_to_minutes_with_tz(timestamp, string) -> int
  .duration_to_minutes(duration) -> int
getMonth
  .timestamp_to_month(timestamp) -> int
  .timestamp_to_month_with_tz(timestamp, string) -> int
getSeconds
  .timestamp_to_seconds(timestamp) -> int
  .timestamp_to_seconds_tz(timestamp, string) -> int
  .duration_to_seconds(duration) -> int
in
  in_list(A, list(A)) -> bool
  in_map(A, map(A, B)) -> bool
int
  int64_to_int64(int) -> int
  double_to_int64(double) -> int
  duration_to_int64(duration) -> int
  string_to_int64(string) -> int
  timestamp_to_int64(timestamp) -> int
  uint64_to_int64(uint) -> int
matches
  matches(string, string) -> bool
  .matches_string(string, string) -> bool
size
  size_bytes(bytes) -> int
  .bytes_size(bytes) -> int
  size_list(list(A)) -> int
  .list_size(list(A)) -> int
  size_map(map(A, B)) -> int
  .map_size(map(A, B)) -> int
  size_string(string) -> int
  .string_size(string) -> int
startsWith
  .starts_with_string(string, string) -> bool
string
  string_to_string(string) -> string
  bool_to_string(bool) -> string
  bytes_to_string(bytes) -> string
  double_to_string(double) -> string
  duration_to_string(duration) -> string
  int64_to_string(int) -> string
  timestamp_to_string(timestamp) -> string
  uint64_to_string(uint) -> string
  ip_to_string(net.IP) -> string
  cidr_to_string(net.CIDR) -> string
timestamp
  timestamp_to_timestamp(timestamp) -> timestamp
  int64_to_timestamp(int) -> timestamp
  string_to_timestamp(string) -> timestamp
type
  type(A) -> type(A)
uint
  uint64_to_uint64(uint) -> uint
  double_to_uint64(double) -> uint
  int64_to_uint64(int) -> uint
  string_to_uint64(string) -> uint
"""

EXTENSIONS = """
@sortByAssociatedKeys
  .list_int_sortByAssociatedKeys(list(T), list(int)) -> list(T)
  .list_uint_sortByAssociatedKeys(list(T), list(uint)) -> list(T)
  .list_double_sortByAssociatedKeys(list(T), list(double)) -> list(T)
  .list_bool_sortByAssociatedKeys(list(T), list(bool)) -> list(T)
  .list_google.protobuf.Duration_sortByAssociatedKeys(list(T), list(duration)) -> list(T)
  .list_google.protobuf.Timestamp_sortByAssociatedKeys(list(T), list(timestamp)) -> list(T)
  .list_string_sortByAssociatedKeys(list(T), list(string)) -> list(T)
  .list_bytes_sortByAssociatedKeys(list(T), list(bytes)) -> list(T)
_?._
  select_optional_field(dyn, string) -> optional_type(V)
_[?_]
  list_optindex_optional_int(list(V), int) -> optional_type(V)
  optional_list_optindex_optional_int(optional_type(list(V)), int) -> optional_type(V)
  map_optindex_optional_value(map(K, V), K) -> optional_type(V)
  optional_map_optindex_optional_value(optional_type(map(K, V)), K) -> optional_type(V)
cel.@mapInsert
  @mapInsert_map_key_value(map(K, V), K, V) -> map(K, V)
  @mapInsert_map_map(map(K, V), map(K, V)) -> map(K, V)
charAt
  .string_char_at_int(string, int) -> string
distinct
  .list_distinct(list(T)) -> list(T)
first
  .list_first(list(V)) -> optional_type(V)
flatten
  .list_flatten(list(list(T))) -> list(T)
  .list_flatten_int(list(dyn), int) -> list(dyn)
format
  .string_format(string, list(dyn)) -> string
hasValue
  .optional_hasValue(optional_type(V)) -> bool
indexOf
  .list_a_index_of_int(list(A), A) -> int
  .string_index_of_string(string, string) -> int
  .string_index_of_string_int(string, string, int) -> int
join
  .list_join(list(string)) -> string
  .list_join_string(list(string), string) -> string
last
  .list_last(list(V)) -> optional_type(V)
lastIndexOf
  .list_a_last_index_of_int(list(A), A) -> int
  .string_last_index_of_string(string, string) -> int
  .string_last_index_of_string_int(string, string, int) -> int
lists.range
  lists_range(int) -> list(int)
lowerAscii
  .string_lower_ascii(string) -> string
optional.none
  optional_none() -> optional_type(V)
optional.of
  optional_of(V) -> optional_type(V)
optional.ofNonZeroValue
  optional_ofNonZeroValue(V) -> optional_type(V)
optional.unwrap
  optional_unwrap(list(optional_type(V))) -> list(V)
or
  .optional_or_optional(optional_type(V), optional_type(V)) -> optional_type(V)
orValue
  .optional_orValue_value(optional_type(V), V) -> V
replace
  .string_replace_string_string(string, string, string) -> string
  .string_replace_string_string_int(string, string, string, int) -> string
reverse
  .list_reverse(list(T)) -> list(T)
sets.contains
  list_sets_contains_list(list(T), list(T)) -> bool
sets.equivalent
  list_sets_equivalent_list(list(T), list(T)) -> bool
sets.intersects
  list_sets_intersects_list(list(T), list(T)) -> bool
slice
  .list_slice(list(T), int, int) -> list(T)
sort
  .list_int_sort(list(int)) -> list(int)
  .list_uint_sort(list(uint)) -> list(uint)
  .list_double_sort(list(double)) -> list(double)
  .list_bool_sort(list(bool)) -> list(bool)
  .list_google.protobuf.Duration_sort(list(duration)) -> list(duration)
  .list_google.protobuf.Timestamp_sort(list(timestamp)) -> list(timestamp)
  .list_string_sort(list(string)) -> list(string)
  .list_bytes_sort(list(bytes)) -> list(bytes)
split
  .string_split_string(string, string) -> list(string)
  .string_split_string_int(string, string, int) -> list(string)
strings.quote
  strings_quote(string) -> string
substring
  .string_substring_int(string, int) -> string
  .string_substring_int_int(string, int, int) -> string
trim
  .string_trim(string) -> string
unwrapOpt
  .optional_unwrapOpt(list(optional_type(V))) -> list(V)
upperAscii
  .string_upper_ascii(string) -> string
value
  .optional_value(optional_type(V)) -> V
"""

KUBERNETES = """
add
  .quantity_add(kubernetes.Quantity, kubernetes.Quantity) -> kubernetes.Quantity
  .quantity_add_int(kubernetes.Quantity, int) -> kubernetes.Quantity
allowed
  .decision_allowed(authz.Decision) -> bool
asApproximateFloat
  .quantity_get_float(kubernetes.Quantity) -> double
asInteger
  .quantity_get_int(kubernetes.Quantity) -> int
check
  .pathcheck_check(authz.PathCheck, string) -> authz.Decision
  .resourcecheck_check(authz.ResourceCheck, string) -> authz.Decision
cidr
  string_to_cidr(string) -> net.CIDR
compareTo
  .quantity_compare_to(kubernetes.Quantity, kubernetes.Quantity) -> int
  .semver_compare_to(kubernetes.Semver, kubernetes.Semver) -> int
containsCIDR
  .cidr_contains_cidr_string(net.CIDR, string) -> bool
  .cidr_contains_cidr(net.CIDR, net.CIDR) -> bool
containsIP
  .cidr_contains_ip_string(net.CIDR, string) -> bool
  .cidr_contains_ip_ip(net.CIDR, net.IP) -> bool
error
  .decision_error(authz.Decision) -> string
errored
  .decision_errored(authz.Decision) -> bool
family
  .ip_family(net.IP) -> int
fieldSelector
  .authorizer_fieldselector(authz.ResourceCheck, string) -> authz.ResourceCheck
find
  .string_find_string(string, string) -> string
findAll
  .string_find_all_string(string, string) -> list(string)
  .string_find_all_string_int(string, string, int) -> list(string)
format.byte
  format.byte() -> kubernetes.NamedFormat
format.date
  format.date() -> kubernetes.NamedFormat
format.datetime
  format.datetime() -> kubernetes.NamedFormat
format.dns1035Label
  format.dns1035Label() -> kubernetes.NamedFormat
format.dns1035LabelPrefix
  format.dns1035LabelPrefix() -> kubernetes.NamedFormat
format.dns1123Label
  format.dns1123Label() -> kubernetes.NamedFormat
format.dns1123LabelPrefix
  format.dns1123LabelPrefix() -> kubernetes.NamedFormat
format.dns1123Subdomain
  format.dns1123Subdomain() -> kubernetes.NamedFormat
format.dns1123SubdomainPrefix
  format.dns1123SubdomainPrefix() -> kubernetes.NamedFormat
format.labelValue
  format.labelValue() -> kubernetes.NamedFormat
format.named
  format-named(string) -> optional_type(kubernetes.NamedFormat)
format.qualifiedName
  format.qualifiedName() -> kubernetes.NamedFormat
format.uri
  format.uri() -> kubernetes.NamedFormat
format.uuid
  format.uuid() -> kubernetes.NamedFormat
getEscapedPath
  .url_get_escaped_path(kubernetes.URL) -> string
getHost
  .url_get_host(kubernetes.URL) -> string
getHostname
  .url_get_hostname(kubernetes.URL) -> string
getPort
  .url_get_port(kubernetes.URL) -> string
getQuery
  .url_get_query(kubernetes.URL) -> map(string, list(string))
getScheme
  .url_get_scheme(kubernetes.URL) -> string
group
  .authorizer_group(authz.Authorizer, string) -> authz.GroupCheck
ip
  string_to_ip(string) -> net.IP
  .cidr_ip(net.CIDR) -> net.IP
ip.isCanonical
  ip_is_canonical(string) -> bool
isCIDR
  is_cidr(string) -> bool
isGlobalUnicast
  .ip_is_global_unicast(net.IP) -> bool
isGreaterThan
  .quantity_is_greater_than(kubernetes.Quantity, kubernetes.Quantity) -> bool
  .semver_is_greater_than(kubernetes.Semver, kubernetes.Semver) -> bool
isIP
  is_ip(string) -> bool
isInteger
  .quantity_is_integer(kubernetes.Quantity) -> bool
isLessThan
  .quantity_is_less_than(kubernetes.Quantity, kubernetes.Quantity) -> bool
  .semver_is_less_than(kubernetes.Semver, kubernetes.Semver) -> bool
isLinkLocalMulticast
  .ip_is_link_local_multicast(net.IP) -> bool
isLinkLocalUnicast
  .ip_is_link_local_unicast(net.IP) -> bool
isLoopback
  .ip_is_loopback(net.IP) -> bool
isQuantity
  is_quantity_string(string) -> bool
isSemver
  is_semver_string(string) -> bool
  is_semver_string_bool(string, bool) -> bool
isSorted
  .list_int_is_sorted_bool(list(int)) -> bool
  .list_uint_is_sorted_bool(list(uint)) -> bool
  .list_double_is_sorted_bool(list(double)) -> bool
  .list_bool_is_sorted_bool(list(bool)) -> bool
  .list_duration_is_sorted_bool(list(duration)) -> bool
  .list_timestamp_is_sorted_bool(list(timestamp)) -> bool
  .list_string_is_sorted_bool(list(string)) -> bool
  .list_bytes_is_sorted_bool(list(bytes)) -> bool
isURL
  is_url_string(string) -> bool
isUnspecified
  .ip_is_unspecified(net.IP) -> bool
labelSelector
  .authorizer_labelselector(authz.ResourceCheck, string) -> authz.ResourceCheck
major
  .semver_major(kubernetes.Semver) -> int
masked
  .cidr_masked(net.CIDR) -> net.CIDR
max
  .list_int_max_int(list(int)) -> int
  .list_uint_max_uint(list(uint)) -> uint
  .list_double_max_double(list(double)) -> double
  .list_bool_max_bool(list(bool)) -> bool
  .list_duration_max_duration(list(duration)) -> duration
  .list_timestamp_max_timestamp(list(timestamp)) -> timestamp
  .list_string_max_string(list(string)) -> string
  .list_bytes_max_bytes(list(bytes)) -> bytes
min
  .list_int_min_int(list(int)) -> int
  .list_uint_min_uint(list(uint)) -> uint
  .list_double_min_double(list(double)) -> double
  .list_bool_min_bool(list(bool)) -> bool
  .list_duration_min_duration(list(duration)) -> duration
  .list_timestamp_min_timestamp(list(timestamp)) -> timestamp
  .list_string_min_string(list(string)) -> string
  .list_bytes_min_bytes(list(bytes)) -> bytes
minor
  .semver_minor(kubernetes.Semver) -> int
name
  .resourcecheck_name(authz.ResourceCheck, string) -> authz.ResourceCheck
namespace
  .resourcecheck_namespace(authz.ResourceCheck, string) -> authz.ResourceCheck
patch
  .semver_patch(kubernetes.Semver) -> int
path
  .authorizer_path(authz.Authorizer, string) -> authz.PathCheck
prefixLength
  .cidr_prefix_length(net.CIDR) -> int
quantity
  string_to_quantity(string) -> kubernetes.Quantity
reason
  .decision_reason(authz.Decision) -> string
resource
  .groupcheck_resource(authz.GroupCheck, string) -> authz.ResourceCheck
semver
  string_to_semver(string) -> kubernetes.Semver
  string_bool_to_semver(string, bool) -> kubernetes.Semver
serviceAccount
  .authorizer_serviceaccount(authz.Authorizer, string, string) -> authz.Authorizer
sign
  quantity_sign(kubernetes.Quantity) -> int
sub
  .quantity_sub(kubernetes.Quantity, kubernetes.Quantity) -> kubernetes.Quantity
  .quantity_sub_int(kubernetes.Quantity, int) -> kubernetes.Quantity
subresource
  .resourcecheck_subresource(authz.ResourceCheck, string) -> authz.ResourceCheck
sum
  .list_int_sum_int(list(int)) -> int
  .list_uint_sum_uint(list(uint)) -> uint
  .list_double_sum_double(list(double)) -> double
  .list_duration_sum_duration(list(duration)) -> duration
url
  string_to_url(string) -> kubernetes.URL
validate
  .format-validate(kubernetes.NamedFormat, string) -> optional_type(list(string))
"""

MATH_AND_ENCODERS = """
base64.decode
  base64_decode_string(string) -> bytes
base64.encode
  base64_encode_bytes(bytes) -> string
math.@max
  math_@max_double(double) -> double
  math_@max_int(int) -> int
  math_@max_uint(uint) -> uint
  math_@max_double_double(double, double) -> double
  math_@max_int_int(int, int) -> int
  math_@max_uint_uint(uint, uint) -> uint
  math_@max_int_uint(int, uint) -> dyn
  math_@max_int_double(int, double) -> dyn
  math_@max_double_int(double, int) -> dyn
  math_@max_double_uint(double, uint) -> dyn
  math_@max_uint_int(uint, int) -> dyn
  math_@max_uint_double(uint, double) -> dyn
  math_@max_list_double(list(double)) -> double
  math_@max_list_int(list(int)) -> int
  math_@max_list_uint(list(uint)) -> uint
math.@min
  math_@min_double(double) -> double
  math_@min_int(int) -> int
  math_@min_uint(uint) -> uint
  math_@min_double_double(double, double) -> double
  math_@min_int_int(int, int) -> int
  math_@min_uint_uint(uint, uint) -> uint
  math_@min_int_uint(int, uint) -> dyn
  math_@min_int_double(int, double) -> dyn
  math_@min_double_int(double, int) -> dyn
  math_@min_double_uint(double, uint) -> dyn
  math_@min_uint_int(uint, int) -> dyn
  math_@min_uint_double(uint, double) -> dyn
  math_@min_list_double(list(double)) -> double
  math_@min_list_int(list(int)) -> int
  math_@min_list_uint(list(uint)) -> uint
math.abs
  math_abs_double(double) -> double
  math_abs_int(int) -> int
  math_abs_uint(uint) -> uint
math.bitAnd
  math_bitAnd_int_int(int, int) -> int
  math_bitAnd_uint_uint(uint, uint) -> uint
math.bitNot
  math_bitNot_int_int(int) -> int
  math_bitNot_uint_uint(uint) -> uint
math.bitOr
  math_bitOr_int_int(int, int) -> int
  math_bitOr_uint_uint(uint, uint) -> uint
math.bitShiftLeft
  math_bitShiftLeft_int_int(int, int) -> int
  math_bitShiftLeft_uint_int(uint, int) -> uint
math.bitShiftRight
  math_bitShiftRight_int_int(int, int) -> int
  math_bitShiftRight_uint_int(uint, int) -> uint
math.bitXor
  math_bitXor_int_int(int, int) -> int
  math_bitXor_uint_uint(uint, uint) -> uint
math.ceil
  math_ceil_double(double) -> double
math.floor
  math_floor_double(double) -> double
math.isFinite
  math_isFinite_double(double) -> bool
math.isInf
  math_isInf_double(double) -> bool
math.isNaN
  math_isNaN_double(double) -> bool
math.round
  math_round_double(double) -> double
math.sign
  math_sign_double(double) -> double
  math_sign_int(int) -> int
  math_sign_uint(uint) -> uint
math.sqrt
  math_sqrt_double(double) -> double
  math_sqrt_int(int) -> double
  math_sqrt_uint(uint) -> double
math.trunc
  math_trunc_double(double) -> double
"""
