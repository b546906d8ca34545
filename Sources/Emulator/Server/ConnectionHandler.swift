import Basics
import NIOCore
import NIOHTTP1

/// Turns the messages of one connection into exchanges, one at a time, and slows the client down to the pace of whoever
/// reads the body. Lives on the connection's event loop.
final class ConnectionHandler: ChannelDuplexHandler {
    typealias InboundIn = HTTPServerRequestPart
    typealias OutboundIn = HTTPServerResponsePart
    typealias OutboundOut = HTTPServerResponsePart

    private let serve: @Sendable (Exchange) -> Void
    private let time: any TimeSource
    private var body: RequestBody?

    init(time: any TimeSource, serve: @escaping @Sendable (Exchange) -> Void) {
        (self.time, self.serve) = (time, serve)
    }

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        switch unwrapInboundIn(data) {
        case .head(let head): begin(head, context)
        case .body(let chunk): body?.append(chunk)
        case .end: body?.end()
        }
    }

    private func begin(_ head: HTTPRequestHead, _ context: ChannelHandlerContext) {
        let channel = context.channel
        let expects = head.headers["expect"].contains { $0.lowercased() == "100-continue" }
        let sendContinue: @Sendable () -> Void = {
            let head = HTTPResponseHead(version: .http1_1, status: .continue)
            channel.writeAndFlush(HTTPServerResponsePart.head(head), promise: nil)
        }
        let body = RequestBody(time: time, onDemand: expects ? sendContinue : nil)
        self.body = body
        let request = ServerRequest(
            method: head.method.rawValue, target: head.uri, headers: head.headers, id: RandomID.hex().uppercased())
        let address = channel.remoteAddress?.ipAddress ?? ""
        serve(
            Exchange(
                request: request, body: body, channel: channel, isKeptAlive: head.isKeepAlive,
                isFromLoopback: EmulatorServer.isLoopback(address)))
    }

    func read(context: ChannelHandlerContext) {
        guard let body else { return context.read() }
        let channel = context.channel
        if body.hasRoom(orElse: { channel.eventLoop.execute { channel.read() } }) { context.read() }
    }

    func channelInactive(context: ChannelHandlerContext) {
        body?.disconnect()
        context.fireChannelInactive()
    }

    func errorCaught(context: ChannelHandlerContext, error: any Error) {
        body?.disconnect()
        context.close(promise: nil)
    }
}
