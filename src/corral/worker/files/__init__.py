"""The files of models on a node: kept by content, fetched in chunks, and passed on to other nodes.

store      contents that are whole, and what is known of them
partial    a content that is being fetched: which chunks are here and verified
folders    the folder of each model, made of links to contents
places     where a chunk can be had, and which place is asked next
lines      chunks over plain connections, in threads
pulling    fetches contents from other nodes, the library or storage
server     gives other nodes what is here, and takes files that are sent
throttle   a limit on the bandwidth
window     how many chunks of a content are fetched at a time
node       all of it together, as jobs see it
"""
