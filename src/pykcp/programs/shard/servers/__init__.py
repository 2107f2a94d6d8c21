"""Several servers for one shard: processes of one machine, or servers on one etcd.

With `--serving-processes` one process writes the store and runs the controllers; it is the one that
the user has started. The others follow its log and answer reads, lists and watches.

    channel            messages and sockets between the writer and a follower
    handover           a request that a follower hands to the writer, with what is known of its client
    follower_requests  where requests enter a follower: answered there, or handed over
    follower           the program of a follower
    writer             starts followers, gives them connections, tells them of revisions

Servers on one etcd are equal, but one of them runs the controllers.

    current_reads      requests wait for what other servers have acknowledged
    leadership         the controllers of the leader

`docs/design/servers.md` describes both.
"""
