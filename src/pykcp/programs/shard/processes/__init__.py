"""Several processes for one shard on one machine: `--serving-processes`.

One process writes the store and runs the controllers; it is the one that the user has started.
The others follow its log and answer reads, lists and watches. `docs/design/servers.md` describes
how they work together.

    channel    messages and sockets between the writer and a follower
    handover   a request that a follower hands to the writer, with what is known of its client
    door       where requests enter a follower: answered there, or handed over
    follower   the program of a follower
    writer     starts followers, gives them connections, tells them of revisions
"""
