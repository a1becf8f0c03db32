"""The files of models on a node: kept by content, fetched in chunks, and passed on to other nodes.

blob_store         complete contents, and what is known of them
partial_content    a content that is being fetched: which chunks are here and verified
model_folders      the folder of each model, made of links to contents
chunk_client       where a chunk can be fetched, and chunks over plain connections, in threads
content_puller     fetches contents from other nodes, the library or storage
file_routes        serves contents to other nodes, and receives files
node_files         all of them together, as jobs see them
"""
